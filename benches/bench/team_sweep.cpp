#include "benches/bench/team_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <mutex>
#include <thread>

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

namespace {

// Outcomes of a member's threads that its main thread has not sent yet.
class Done {
 public:
  struct Entry {
    TeamMessage message;
    asio::thread_pool* thread = nullptr;  // the thread that is idle again
  };

  void add(Entry entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
  }
  std::vector<Entry> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(entries_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace

void SweepMember::serve(std::size_t jobs) {
  Done done;
  const auto simulate = [&](asio::thread_pool* thread, std::size_t point) {
    const std::optional<PointOutcome> outcome = points_.simulate(point);
    std::string line = outcome ? format_line(sweep_, point, *outcome) : "";
    const Kind kind = line.empty() ? Kind::failed : Kind::outcome;
    done.add({{.kind = kind, .number = point, .text = std::move(line)}, thread});
  };
  WorkerThreads threads = start_threads(jobs);  // ends before what it uses
  std::vector<asio::thread_pool*> idle;
  for (asio::thread_pool& thread : threads.pools) idle.push_back(&thread);
  const auto obey = [&](const TeamMessage& message) {
    if (message.kind == Kind::take) {
      KB_CHECK(!idle.empty(), "the leader has given more points than were wanted");
      asio::thread_pool* const thread = idle.back();
      idle.pop_back();
      asio::post(*thread, [=, &simulate] { simulate(thread, message.number); });
    } else if (message.kind == Kind::outcome) {
      points_.finish(message.number, parse_line(message.text).value().outcome);
    }
    return message.kind != Kind::end;
  };
  try {
    team_.send(0, {.kind = Kind::want, .number = idle.size(), .text = describe(sweep_)});
    for (bool goes_on = true; goes_on;) {
      for (const auto& [message, thread] : done.take()) {
        idle.push_back(thread);
        team_.send(0, message);
      }
      const std::optional<TeamMessage> message = team_.receive();
      if (message) goes_on = obey(*message);
      if (points_.is_interrupted()) throw Dismissed{};
      if (!message) std::this_thread::sleep_for(kMessagePoll);
    }
  } catch (...) {
    points_.interrupt();
    throw;
  }
  for (asio::thread_pool& thread : threads.pools) thread.join();
}

}  // namespace kernbench::benches
