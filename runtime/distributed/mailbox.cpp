#include "runtime/distributed/mailbox.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/distributed/fingerprint.h"

namespace kernbench::distributed {

Mailbox::Address Mailbox::make_address(const Message& message) {
  return {.receiver = message.is_send ? message.event.peer : message.own,
          .tag = message.event.tag,
          .is_of_objects = message.objects != nullptr};
}

std::optional<Message> Mailbox::take_match(const Message& message) {
  const auto at = waiting_.find(make_address(message));
  if (at == waiting_.end()) return std::nullopt;
  std::deque<Message>& others = message.is_send ? at->second.receives : at->second.sends;
  // Messages between two ranks with one tag must not overtake each other, so the oldest match is
  // taken.
  const auto found = std::ranges::find_if(others, [&](const Message& other) {
    const Message& receive = message.is_send ? other : message;
    const Message& send = message.is_send ? message : other;
    return receive.event.peer < 0 || receive.event.peer == send.own;
  });
  if (found == others.end()) return std::nullopt;
  Message match = std::move(*found);
  others.erase(found);
  if (at->second.sends.empty() && at->second.receives.empty()) waiting_.erase(at);
  return match;
}

void Mailbox::put(Message message) {
  Waiting& waiting = waiting_[make_address(message)];
  (message.is_send ? waiting.sends : waiting.receives).push_back(std::move(message));
}

MessageCall sending(std::string_view function, const SendOptions& options,
                    std::source_location location) {
  return {.function = function,
          .is_send = true,
          .peer = options.dst,
          .group_peer = options.group_dst,
          .group = options.group,
          .tag = options.tag,
          .location = location};
}

MessageCall receiving(std::string_view function, const RecvOptions& options,
                      std::source_location location) {
  return {.function = function,
          .peer = options.src,
          .group_peer = options.group_src,
          .group = options.group,
          .tag = options.tag,
          .location = location};
}

std::string describe(const Message& message) {
  const runtime::FlightEvent& event = message.event;
  return fmt::format("{} {} (tag {}) at {}", message.is_send ? "send to" : "recv from",
                     event.peer < 0 ? "any rank" : fmt::format("rank {}", event.peer), event.tag,
                     call_site(event.location));
}

}  // namespace kernbench::distributed
