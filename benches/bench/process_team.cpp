#include "benches/bench/process_team.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

constexpr std::chrono::milliseconds kPoll{1};

}  // namespace

std::string to_text(const TeamMessage& message) {
  return fmt::format("{}{} {}", static_cast<char>(message.kind), message.number, message.text);
}

TeamMessage parse_message(const std::string& text, int from) {
  TeamMessage message{.kind = static_cast<TeamMessage::Kind>(text.at(0)), .peer = from};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 1, end, message.number);
  KB_CHECK(error == std::errc() && stop != end, "process {} has sent '{}'", from, text);
  message.text.assign(stop + 1, end);
  return message;
}

ProcessTeam::ProcessTeam(std::unique_ptr<TeamTransport> transport)
    : transport_(std::move(transport)) {
  if (!leads()) return;
  for (int rank = 1; rank < size(); ++rank) members_.insert(rank);
}

ProcessTeam::~ProcessTeam() {
  try {
    end();
  } catch (const Dismissed&) {
  } catch (const Error&) {  // of the transport: there is nobody left to tell
  }
}

void ProcessTeam::end() {
  int present = 0;
  if (leads()) {
    dismiss_all();
    present = size() - 1;
  } else if (!has_left_) {
    leave("it has ended");
    present = 1;
  }
  while (present > 0) {
    const std::optional<TeamMessage> message = next();
    if (!message) std::this_thread::sleep_for(kPoll);
    if (message && message->kind == TeamMessage::Kind::bye) --present;
  }
}

void ProcessTeam::send(int to, const TeamMessage& message) {
  transport_->send(to, to_text(message));
}

std::optional<TeamMessage> ProcessTeam::next() {
  const std::optional<TeamTransport::Received> received = transport_->receive();
  if (!received) return std::nullopt;
  TeamMessage message = parse_message(received->text, received->from);
  if (message.kind == TeamMessage::Kind::dismiss) {
    has_left_ = true;
    send(0, {.kind = TeamMessage::Kind::bye});
    throw Dismissed{};
  }
  return message;
}

std::optional<TeamMessage> ProcessTeam::receive() {
  if (has_left_) throw Dismissed{};
  return next();
}

void ProcessTeam::dismiss_all() {
  for (int rank = 1; rank < size(); ++rank) {
    if (!has_left_) send(rank, {.kind = TeamMessage::Kind::dismiss});
  }
  has_left_ = true;
  members_.clear();
}

void ProcessTeam::leave(const std::string& reason) {
  if (has_left_ || std::exchange(has_said_reason_, true)) return;
  send(0, {.kind = TeamMessage::Kind::leave, .text = reason});
}

}  // namespace kernbench::benches
