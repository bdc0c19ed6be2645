#include "runtime/distributed/mailbox.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/distributed/fingerprint.h"

namespace kernbench::distributed {

Mailbox::Address Mailbox::address_of(const Message& message) {
  return {message.is_send ? *message.other : message.own, message.tag, message.objects != nullptr};
}

std::optional<Message> Mailbox::take_match(const Message& message) {
  const auto at = waiting_.find(address_of(message));
  if (at == waiting_.end()) return std::nullopt;
  std::deque<Message>& others = message.is_send ? at->second.receives : at->second.sends;
  const auto found = std::ranges::find_if(others, [&](const Message& other) {
    const Message& receive = message.is_send ? other : message;
    const Message& send = message.is_send ? message : other;
    return !receive.other || *receive.other == send.own;
  });
  if (found == others.end()) return std::nullopt;
  Message match = std::move(*found);
  others.erase(found);
  if (at->second.sends.empty() && at->second.receives.empty()) waiting_.erase(at);
  return match;
}

void Mailbox::put(Message message) {
  Waiting& waiting = waiting_[address_of(message)];
  (message.is_send ? waiting.sends : waiting.receives).push_back(std::move(message));
}

std::string describe(const Message& message) {
  return fmt::format("{} {} (tag {}) at {}", message.is_send ? "send to" : "recv from",
                     message.other ? fmt::format("rank {}", *message.other) : "any rank",
                     message.tag, call_site(message.location));
}

}  // namespace kernbench::distributed
