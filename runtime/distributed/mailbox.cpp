#include "runtime/distributed/mailbox.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/distributed/fingerprint.h"

namespace kernbench::distributed {

namespace {

bool fit(const Message& send, const Message& receive) {
  const bool is_alike = (send.objects == nullptr) == (receive.objects == nullptr);
  return send.is_send && !receive.is_send && is_alike && send.tag == receive.tag &&
         *send.other == receive.own && (!receive.other || *receive.other == send.own);
}

}  // namespace

std::optional<Message> Mailbox::take_match(const Message& message) {
  const auto found = std::ranges::find_if(waiting_, [&](const Message& other) {
    return message.is_send ? fit(message, other) : fit(other, message);
  });
  if (found == waiting_.end()) return std::nullopt;
  Message match = std::move(*found);
  waiting_.erase(found);
  return match;
}

std::string describe(const Message& message) {
  return fmt::format("{} {} (tag {}) at {}", message.is_send ? "send to" : "recv from",
                     message.other ? fmt::format("rank {}", *message.other) : "any rank",
                     message.tag, call_site(message.location));
}

}  // namespace kernbench::distributed
