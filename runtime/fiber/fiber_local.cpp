#include "runtime/fiber/fiber_local.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "sim_engine/base/visible_text.h"

namespace kernbench::runtime {

namespace {

// Appends to a buffer and cuts off what does not fit.
class Writer {
 public:
  explicit Writer(std::span<char> buffer) : buffer_(buffer) {}

  Writer& operator<<(std::string_view text) {
    const std::size_t count = std::min(text.size(), buffer_.size() - length_);
    std::copy_n(text.data(), count, buffer_.data() + length_);
    length_ += count;
    return *this;
  }
  Writer& operator<<(int value) {
    char digits[12];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    return *this << std::string_view(digits, static_cast<std::size_t>(end - digits));
  }
  // Appends text that comes from the user, with control characters made visible.
  void add_visible(std::string_view text) {
    length_ += write_visible(text, buffer_.subspan(length_));
  }
  std::size_t length() const { return length_; }

 private:
  std::span<char> buffer_;
  std::size_t length_ = 0;
};

}  // namespace

std::string name_ranks(std::span<const int> ranks) {
  constexpr std::size_t kMost = 16;
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  if (ranks.size() > kMost) {
    return fmt::format("ranks {} and {} more", fmt::join(ranks.first(kMost), ", "),
                       ranks.size() - kMost);
  }
  return fmt::format("ranks {} and {}", fmt::join(ranks.first(ranks.size() - 1), ", "),
                     ranks.back());
}

std::size_t write_name(const void* object, std::span<char> buffer) noexcept {
  const auto& local = *static_cast<const FiberLocal*>(object);
  Writer writer(buffer);
  if (local.kind == FiberLocal::Kind::kernel) {
    writer << "kernel '";
    writer.add_visible(local.kernel);
    writer << "' on sip" << local.pe.sip << ".cube" << local.pe.cube << ".pe" << local.pe.pe;
  } else {
    writer << "rank " << local.rank;
    if (local.kind == FiberLocal::Kind::work)
      writer << (local.is_on_device ? " (queued)" : " (async)");
  }
  return writer.length();
}

}  // namespace kernbench::runtime
