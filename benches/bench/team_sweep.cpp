#include "benches/bench/team_sweep.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>

#include "benches/bench/every.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace asio = boost::asio;

namespace {

using Kind = TeamMessage::Kind;

constexpr std::chrono::milliseconds kMessagePoll{1};

// The text of a `want` message.
std::string describe(const TeamSweep& sweep) {
  return fmt::format("{:016x} {}", sweep.inputs, sweep.name);
}

std::string_view name_in(std::string_view described) {
  return described.substr(described.find(' ') + 1);
}

}  // namespace

SweepLeader::SweepLeader(ProcessTeam& team, TeamSweep sweep, Points points)
    : team_(team), sweep_(std::move(sweep)), points_(std::move(points)) {}

void SweepLeader::poll() {
  while (const std::optional<TeamMessage> message = team_.receive()) take_in(*message);
  hand_out();
}

void SweepLeader::take_in(const TeamMessage& message) {
  if (message.kind == Kind::want) return enter(message);
  if (message.kind == Kind::leave) return lose(message);
  points_.end(message.number, to_end(message));
  given_.erase(message.number);
  // A process that had no memory for a point would give back the next one too.
  if (message.kind != Kind::failed) ++idle_[message.peer];
}

// A process that comes late to an earlier sweep is ignored: it will receive that sweep's results.
void SweepLeader::enter(const TeamMessage& message) {
  if (name_in(message.text) != sweep_.name) return;
  if (message.text != describe(sweep_)) {
    throw ConfigError("KB-B002",
                      "process {} simulates the sweep '{}' with other inputs: every process needs "
                      "the same build of the program and the same files",
                      message.peer, sweep_.name);
  }
  idle_[message.peer] += message.number;
}

void SweepLeader::lose(const TeamMessage& message) {
  team_.remove(message.peer);
  idle_.erase(message.peer);
  for (auto at = given_.begin(); at != given_.end();) {
    if (at->second != message.peer) {
      ++at;
      continue;
    }
    points_.give_back(at->first);
    at = given_.erase(at);
  }
  points_.lost(message.peer, message.text);
}

// Gives one point to each process in turn, so that few points are spread over all processes.
void SweepLeader::hand_out() {
  bool has_given = true;
  while (has_given) {
    has_given = false;
    for (auto& [process, room] : idle_) {
      if (room == 0) continue;
      const std::optional<std::size_t> point = points_.take();
      if (!point) return;
      --room;
      given_[*point] = process;
      team_.send(process, {.kind = Kind::take, .number = *point});
      has_given = true;
    }
  }
}

void SweepLeader::end(std::span<const std::pair<std::size_t, const PointOutcome*>> outcomes) {
  for (const int member : team_.members()) {
    for (const auto& [point, outcome] : outcomes) {
      team_.send(member, to_message(point, {.outcome = *outcome}));
    }
    team_.send(member, {.kind = Kind::end});
  }
}

SweepMember::SweepMember(ProcessTeam& team, TeamSweep sweep, Points points)
    : team_(team), sweep_(std::move(sweep)), points_(std::move(points)) {}

void SweepMember::serve(const PointWorkers::Limits& limits) {
  asio::io_context loop;
  std::deque<std::size_t> taken;  // and not begun
  PointCalls calls = points_.simulated;
  calls.end = [&](std::size_t point, const PointEnd& end) {
    team_.send(0, to_message(point, end));
  };
  PointWorkers workers(loop, limits, std::move(calls));
  bool goes_on = true;
  const auto obey = [&](const TeamMessage& message) {
    if (message.kind == Kind::take) {
      taken.push_back(message.number);
    } else if (message.kind == Kind::outcome) {
      points_.finish(message.number, to_end(message).outcome.value());
    }
    goes_on = message.kind != Kind::end;
  };
  const auto poll = [&] {
    while (const std::optional<TeamMessage> message = goes_on ? team_.receive() : std::nullopt) {
      obey(*message);
    }
    if (points_.is_interrupted()) throw Dismissed{};
  };
  team_.send(0, {.kind = Kind::want, .number = limits.count, .text = describe(sweep_)});
  const Every polling(loop, kMessagePoll, poll);
  while (goes_on) {
    loop.run_one();
    while (!taken.empty() && workers.has_room(taken.front()) && workers.start(taken.front())) {
      taken.pop_front();
    }
  }
}

}  // namespace kernbench::benches
