#include "sim_engine/components/ipcq_posts.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim_engine/base/check.h"

namespace kernbench::sim {

namespace {

constexpr std::size_t kFewPosts = 4;

}  // namespace

void IpcqPosts::refuse(std::uint32_t number) {
  check_failed(__FILE__, __LINE__, "is open", fmt::format("post {} is closed", number));
}

IpcqPost& IpcqPosts::add() {
  if (size() == ring_.size()) grow();
  IpcqPost& post = at(next_++);
  post.state = IpcqPost::State::open;
  post.wakes = false;
  return post;
}

void IpcqPosts::grow() {
  std::vector<IpcqPost> larger(std::max(kFewPosts, 2 * ring_.size()));
  for (std::uint32_t number = first_; number != next_; ++number) {
    larger[number & (larger.size() - 1)] = std::move(at(number));
  }
  ring_ = std::move(larger);
  mask_ = static_cast<std::uint32_t>(ring_.size()) - 1;
}

void IpcqPosts::close(std::uint32_t number) {
  IpcqPost* post = find(number);
  KB_CHECK(post != nullptr && post->state != IpcqPost::State::closed, "post {}", number);
  post->state = IpcqPost::State::closed;
  post->tile = {};
  post->refused.reset();
  forget_closed();
}

void IpcqPosts::forget_closed() {
  while (first_ != next_ && at(first_).state == IpcqPost::State::closed) ++first_;
}

int IpcqPosts::count(const ReceiveIssuer* issuer) const {
  int count = 0;
  for (std::uint32_t number = first_; number != next_; ++number) {
    const IpcqPost& post = at(number);
    const bool is_open =
        post.state != IpcqPost::State::closed && post.state != IpcqPost::State::discarded;
    count += is_open && (issuer == nullptr || post.issuer == issuer);
  }
  return count;
}

void IpcqPosts::withdraw(std::uint32_t sent) {
  while (first_ != next_ && static_cast<std::int32_t>(next_ - sent) > 0) {
    at(--next_).tile = {};
  }
  for (std::uint32_t number = first_; number != next_; ++number) {
    IpcqPost& post = at(number);
    if (post.state == IpcqPost::State::discarded) continue;
    post.state =
        post.state == IpcqPost::State::open ? IpcqPost::State::discarded : IpcqPost::State::closed;
    post.tile = {};
  }
  forget_closed();
}

void IpcqPosts::reset(std::uint32_t first) {
  for (IpcqPost& post : ring_) post = {};
  first_ = next_ = first;
}

}  // namespace kernbench::sim
