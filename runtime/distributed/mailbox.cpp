#include "runtime/distributed/mailbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/distributed/fingerprint.h"

namespace kernbench::distributed {

namespace {

bool fits(const Message& receive, const Message& send) {
  return receive.event.peer < 0 || receive.event.peer == send.own;
}

Message take(std::deque<Message>& messages, std::deque<Message>::iterator at) {
  Message taken = std::move(*at);
  messages.erase(at);
  return taken;
}

// Returns the earliest send of each sender, in the order of ranks.
std::vector<std::deque<Message>::iterator> first_sends(std::deque<Message>& sends) {
  std::vector<std::deque<Message>::iterator> firsts;
  for (auto send = sends.begin(); send != sends.end(); ++send) {
    const bool is_first = std::ranges::none_of(
        firsts, [&](const auto& earlier) { return earlier->own == send->own; });
    if (is_first) firsts.push_back(send);
  }
  std::ranges::sort(firsts, {}, [](const auto& send) { return send->own; });
  return firsts;
}

}  // namespace

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
    return message.is_send ? fits(other, message) : fits(message, other);
  });
  if (found == others.end() || found->is_deferred) return std::nullopt;
  // A receive that is deferred has come before this one, or could take this send.
  if (!message.is_send && std::ranges::any_of(at->second.receives, &Message::is_deferred)) {
    return std::nullopt;
  }
  Message match = take(others, found);
  if (at->second.sends.empty() && at->second.receives.empty()) waiting_.erase(at);
  return match;
}

std::optional<std::uint64_t> Mailbox::begin_settling(const Address& address) {
  const auto at = waiting_.find(address);
  if (at == waiting_.end() || at->second.is_settling || at->second.sends.empty()) {
    return std::nullopt;
  }
  if (std::ranges::none_of(at->second.receives, &Message::is_deferred)) return std::nullopt;
  at->second.is_settling = true;
  return settlings_[address]++;
}

std::vector<Mailbox::Match> Mailbox::settle(
    const Address& address, runtime::FunctionRef<std::size_t(std::span<const int>)> choose) {
  std::vector<Match> matches;
  const auto at = waiting_.find(address);
  // A failure, or the end of the group, may have taken all messages.
  if (at == waiting_.end() || !at->second.is_settling || at->second.sends.empty()) return matches;
  auto& [sends, receives, is_settling] = at->second;
  is_settling = false;
  const auto senders = first_sends(sends);
  std::vector<int> ranks;
  for (const auto& send : senders) ranks.push_back(send->own);
  Message chosen = take(sends, senders[choose(ranks)]);
  const auto deferred = std::ranges::find_if(receives, &Message::is_deferred);
  matches.push_back({take(receives, deferred), std::move(chosen)});
  for (auto receive = receives.begin(); receive != receives.end() && !receive->is_deferred;) {
    const auto send =
        std::ranges::find_if(sends, [&](const Message& one) { return fits(*receive, one); });
    if (send == sends.end()) {
      ++receive;
      continue;
    }
    Message taken = take(sends, send);
    matches.push_back({std::move(*receive), std::move(taken)});
    receive = receives.erase(receive);
  }
  if (sends.empty() && receives.empty()) waiting_.erase(at);
  return matches;
}

std::vector<Message> Mailbox::take_all() {
  std::vector<Message> all;
  for (auto& [address, waiting] : std::exchange(waiting_, {})) {
    for (auto* const side : {&waiting.sends, &waiting.receives}) {
      std::ranges::move(*side, std::back_inserter(all));
    }
  }
  return all;
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
