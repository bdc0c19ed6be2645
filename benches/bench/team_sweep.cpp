#include "benches/bench/team_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "benches/bench/worker_threads.h"
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

std::string format_line(const TeamSweep& sweep, std::size_t point, const PointOutcome& outcome) {
  return to_line({sweep.inputs, std::to_string(point), outcome}).value_or("");
}

}  // namespace

SweepLeader::SweepLeader(ProcessTeam& team, TeamSweep sweep, Points points)
    : team_(team), sweep_(std::move(sweep)), points_(std::move(points)) {}

void SweepLeader::poll() {
  while (const std::optional<TeamMessage> message = team_.receive()) take_in(*message);
  hand_out();
}

void SweepLeader::take_in(const TeamMessage& message) {
  switch (message.kind) {
    case Kind::want:
      return enter(message);
    case Kind::outcome: {
      const std::optional<NamedOutcome> named = parse_line(message.text);
      KB_CHECK(named, "process {} has sent '{}'", message.peer, message.text);
      points_.finish(message.number, named->outcome);
      break;
    }
    case Kind::failed:  // a thread that had no memory for it would give back the next one too
      points_.give_back(message.number);
      given_.erase(message.number);
      return;
    case Kind::leave:
      return lose(message);
    default:
      KB_CHECK(false, "process {} has sent '{}'", message.peer, static_cast<char>(message.kind));
  }
  given_.erase(message.number);
  ++idle_[message.peer];
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
      team_.send(
          member,
          {.kind = Kind::outcome, .number = point, .text = format_line(sweep_, point, *outcome)});
    }
    team_.send(member, {.kind = Kind::end});
  }
}

SweepMember::SweepMember(ProcessTeam& team, TeamSweep sweep, Points points)
    : team_(team), sweep_(std::move(sweep)), points_(std::move(points)) {}

void SweepMember::serve(std::size_t jobs) {
  asio::io_context loop;  // of this thread, which alone talks to the leader
  std::size_t idle = 0;
  bool goes_on = true;
  const auto simulate = [&](std::size_t point) {
    const std::optional<PointOutcome> outcome = points_.simulate(point);
    std::string line = outcome ? format_line(sweep_, point, *outcome) : "";
    const Kind kind = line.empty() ? Kind::failed : Kind::outcome;
    asio::post(loop, [&, result = TeamMessage{kind, point, std::move(line)}] {
      ++idle;
      team_.send(0, result);
    });
  };
  WorkerThreads threads(jobs);  // ends before what it uses
  idle = threads.size();
  const auto obey = [&](const TeamMessage& message) {
    if (message.kind == Kind::take) {
      KB_CHECK(idle > 0, "the leader has given more points than were wanted");
      --idle;
      threads.post([&, point = message.number] { simulate(point); });
    } else if (message.kind == Kind::outcome) {
      points_.finish(message.number, parse_line(message.text).value().outcome);
    }
    goes_on = message.kind != Kind::end;
  };
  const auto poll = [&] {
    while (const std::optional<TeamMessage> message = goes_on ? team_.receive() : std::nullopt) {
      obey(*message);
    }
    if (points_.is_interrupted()) throw Dismissed{};
  };
  try {
    team_.send(0, {.kind = Kind::want, .number = idle, .text = describe(sweep_)});
    const Every polling(loop, kMessagePoll, poll);
    while (goes_on) loop.run_one();
  } catch (...) {
    points_.interrupt();
    throw;
  }
}

}  // namespace kernbench::benches
