#include "benches/process_team.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <thread>

#include "sim_engine/base/check.h"

namespace kernbench::benches {

namespace {

constexpr std::chrono::milliseconds kPoll{1};

std::string to_text(const TeamMessage& message) {
  return fmt::format("{}{} {}", static_cast<char>(message.kind), message.number, message.text);
}

TeamMessage parse(const std::string& text, int from) {
  TeamMessage message{.kind = static_cast<TeamMessage::Kind>(text.at(0)), .peer = from};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + 1, end, message.number);
  KB_CHECK(error == std::errc() && stop != end, "process {} has sent '{}'", from, text);
  message.text.assign(stop + 1, end);
  return message;
}

}  // namespace

ProcessTeam::ProcessTeam(std::unique_ptr<TeamTransport> transport)
    : transport_(std::move(transport)) {
  if (!leads()) return;
  for (int rank = 1; rank < size(); ++rank) members_.insert(rank);
}

ProcessTeam::~ProcessTeam() {
  if (leads()) {
    dismiss_all();
    return;
  }
  leave("it has ended");
  try {
    while (!has_left_) {
      if (!next()) std::this_thread::sleep_for(kPoll);
    }
  } catch (const Dismissed&) {
  }
}

void ProcessTeam::send(int to, const TeamMessage& message) {
  transport_->send(to, to_text(message));
}

std::optional<TeamMessage> ProcessTeam::next() {
  const std::optional<TeamTransport::Received> received = transport_->receive();
  if (!received) return std::nullopt;
  TeamMessage message = parse(received->text, received->from);
  if (message.kind == TeamMessage::Kind::dismiss) {
    has_left_ = true;
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
  if (!has_left_) send(0, {.kind = TeamMessage::Kind::leave, .text = reason});
}

}  // namespace kernbench::benches
