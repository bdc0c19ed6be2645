// Sweeps of several processes; here each process is a thread, and what they say goes through
// queues.

#include "benches/bench/process_team.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <latch>
#include <mutex>
#include <thread>

#include "benches/bench/bench.h"
#include "sim_engine/base/error.h"
#include "test/benches/bench_under_test.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::process_team_test {

using benches::BenchRequest;
using benches::Dismissed;
using benches::PointContext;
using benches::ProcessTeam;
using benches::Row;
using benches::Sweep;
using benches::TeamTransport;

namespace {

constexpr int kPoints = 9;

// The messages that have been sent to each process and not been received.
struct Wires {
  std::mutex mutex;
  std::array<std::deque<TeamTransport::Received>, 4> to;

  bool is_read(std::size_t rank) {
    const std::lock_guard lock(mutex);
    return to[rank].empty();
  }
};

void pause() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class Wire final : public TeamTransport {
 public:
  Wire(Wires& wires, int rank, int size) : wires_(wires), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void send(int to, const std::string& text) override {
    const std::lock_guard lock(wires_.mutex);
    wires_.to.at(static_cast<std::size_t>(to)).push_back({rank_, text});
  }
  std::optional<Received> receive() override {
    const std::lock_guard lock(wires_.mutex);
    auto& queue = wires_.to.at(static_cast<std::size_t>(rank_));
    if (queue.empty()) return std::nullopt;
    Received first = queue.front();
    queue.pop_front();
    return first;
  }

 private:
  Wires& wires_;
  const int rank_;
  const int size_;
};

// A process that a test plays itself, as its number 1, until it is dismissed.
class PlayedMember {
 public:
  explicit PlayedMember(Wires& wires) : wire_(wires, 1, 2) {}

  void send(const std::string& text) { wire_.send(0, text); }
  // Waits for the next text; "" if none comes for long.
  std::string receive() {
    for (int i = 0; i < 30'000; ++i) {
      if (const auto received = wire_.receive()) return received->text;
      pause();
    }
    return "";
  }
  bool is_dismissed() {
    for (std::string text = receive(); !text.empty(); text = receive()) {
      if (text == "d0 ") return true;
    }
    return false;
  }

 private:
  Wire wire_;
};

// Is done at a point, besides its copy.
using Deed = std::function<void(int process, int point)>;

struct Outcome {
  std::string results;
  std::string error;
  bool was_dismissed = false;
};

Outcome run_sweep(ProcessTeam* team, const Deed& deed, const std::string& inputs = "files") {
  BenchRequest request = BenchUnderTest::request_of(1);
  request.recording = {};
  request.inputs = inputs;
  request.team = team;
  BenchUnderTest test(request);
  Outcome outcome;
  try {
    for (const char* const name : {"first", "second"}) {
      Sweep sweep(test.bench, name);
      for (int i = 0; i < kPoints; ++i) {
        sweep.add(std::to_string(i), [=](PointContext& point) {
          deed(team == nullptr ? 0 : team->rank(), i);
          const auto torch = point.make_context();
          const std::vector<float> zeros(static_cast<std::size_t>(8 * (i + 1)));
          const Shape shape{1, 8 * (i + 1)};
          torch->ones(shape).copy_(RuntimeContext::from_blob(zeros.data(), shape));
          return Row().set("i", i).set("ns", torch->engine().now_ns());
        });
      }
      sweep.run();
    }
  } catch (const Dismissed&) {
    outcome.was_dismissed = true;
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  outcome.results = test.results();
  return outcome;
}

// Each process with a bench of its own.
std::vector<Outcome> run_team(int size, const Deed& deed,
                              const std::vector<std::string>& inputs = {}) {
  Wires wires;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  std::vector<std::thread> processes;
  for (int rank = 0; rank < size; ++rank) {
    processes.emplace_back([&, rank] {
      ProcessTeam team(std::make_unique<Wire>(wires, rank, size));
      const auto at = static_cast<std::size_t>(rank);
      outcomes[at] = run_sweep(&team, deed, inputs.empty() ? "files" : inputs[at]);
    });
  }
  for (std::thread& process : processes) process.join();
  return outcomes;
}

void nothing(int, int) {}

}  // namespace

TEST_CASE("every process of a team comes to the results of one alone", "[sweep][team]") {
  const std::string alone = run_sweep(nullptr, nothing).results;
  for (const int size : {1, 2, 4}) {
    for (const Outcome& outcome : run_team(size, nothing)) {
      CHECK(outcome.results == alone);
      CHECK(outcome.error.empty());
    }
  }
}

TEST_CASE("the points of a team are simulated at the same time, each once", "[sweep][team]") {
  std::latch all_have_one(3);  // passed only if three processes simulate at once
  std::array<std::atomic<int>, kPoints> count{};
  run_team(3, [&](int, int point) {
    if (count[static_cast<std::size_t>(point)]++ == 0 && point < 3) all_have_one.arrive_and_wait();
  });
  for (const std::atomic<int>& times : count) CHECK(times == 2);  // in each of two sweeps
}

TEST_CASE("a point that another process cannot simulate is done by the first", "[sweep][team]") {
  std::atomic<int> refused = 0;
  std::latch other_has_one(2);
  const auto outcomes = run_team(2, [&](int process, int point) {
    if (refused == 0 && point < 2) other_has_one.arrive_and_wait();
    if (process == 0) return;
    ++refused;
    throw LimitError("KB-L003", "no memory in this process");
  });
  CHECK(refused > 0);
  CHECK(outcomes[0].results == run_sweep(nullptr, nothing).results);
  CHECK(outcomes[1].results == outcomes[0].results);
}

TEST_CASE("what fails fails as in one process, and the others are dismissed", "[sweep][team]") {
  const auto outcomes = run_team(3, [](int, int point) {
    if (point >= 5) throw std::runtime_error("point " + std::to_string(point));
  });
  CHECK(outcomes[0].error == "point 5");
  CHECK(outcomes[1].was_dismissed);
  CHECK(outcomes[2].was_dismissed);
}

TEST_CASE("processes with other inputs are refused", "[sweep][team]") {
  Wires wires;
  PlayedMember member(wires);
  member.send("w2 0123456789abcdef first");
  Outcome outcome;
  std::thread leader([&] {
    ProcessTeam team(std::make_unique<Wire>(wires, 0, 2));
    outcome = run_sweep(&team, [&](int, int) {
      while (!wires.is_read(0)) pause();
    });
  });
  CHECK(member.receive() == "d0 ");
  member.send("b0 ");
  leader.join();
  CHECK_THAT(outcome.error, test::Says("KB-B002", "1", "'first'"));
}

TEST_CASE("the points of a process that leaves are done by the first", "[sweep][team]") {
  Wires wires;
  PlayedMember member(wires);
  Outcome outcome;
  std::latch has_points(1);
  std::thread leader([&] {
    ProcessTeam team(std::make_unique<Wire>(wires, 0, 2));
    outcome = run_sweep(&team, [&](int, int) { has_points.wait(); });
  });
  BenchRequest request = BenchUnderTest::request_of(1);
  request.recording = {};
  request.inputs = "files";
  const BenchUnderTest test(request);
  member.send(fmt::format("w2 {:016x} first", test.run.inputs_hash()));
  CHECK(member.receive().starts_with("t"));
  CHECK(member.receive().starts_with("t"));
  member.send("l0 out of memory");
  has_points.count_down();
  CHECK(member.is_dismissed());
  member.send("b0 ");
  leader.join();
  CHECK(outcome.results == run_sweep(nullptr, nothing).results);
}

TEST_CASE("a point that has ended a process of another machine is lost alone", "[sweep][team]") {
  Wires wires;
  PlayedMember member(wires);
  Outcome outcome;
  std::latch has_point(1);
  std::thread leader([&] {
    ProcessTeam team(std::make_unique<Wire>(wires, 0, 2));
    outcome = run_sweep(&team, [&](int, int) { has_point.wait(); });
  });
  BenchRequest request = BenchUnderTest::request_of(1);
  request.recording = {};
  request.inputs = "files";
  const BenchUnderTest test(request);
  member.send(fmt::format("w1 {:016x} first", test.run.inputs_hash()));
  const std::string point = member.receive().substr(1);
  member.send("c" + point + "killed by signal 9 (Killed)");
  // Given the next one, it has no more of them.
  CHECK(member.receive().starts_with("t"));
  member.send("l0 enough");
  has_point.count_down();
  CHECK(member.is_dismissed());
  member.send("b0 ");
  leader.join();
  CHECK_THAT(outcome.error, test::Says("KB-B004", "killed by signal 9 (Killed)", "8 of 9"));
}

TEST_CASE("a process that is dismissed is heard out: a transport may hold large texts back",
          "[sweep][team]") {
  Wires wires;
  PlayedMember member(wires);
  std::atomic<bool> has_ended = false;
  std::thread leader([&] {
    { const ProcessTeam team(std::make_unique<Wire>(wires, 0, 2)); }
    has_ended = true;
  });
  CHECK(member.receive() == "d0 ");
  member.send("o0 late");
  member.send("l0 late too");
  while (!wires.is_read(0)) pause();
  CHECK_FALSE(has_ended);
  member.send("b0 ");
  leader.join();
  CHECK(wires.is_read(0));
}

#ifndef KERNBENCH_WITH_MPI

TEST_CASE("one of several processes that cannot talk does not begin", "[cli][team]") {
  const ProgramResult result =
      run_program({"list"}, {.environment = {{"OMPI_COMM_WORLD_SIZE", "4"}}});
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  const ProgramResult second = run_program(
      {"list"}, {.environment = {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "1"}}});
  CHECK(second.err.empty());
  CHECK(second.exit_code == 2);
  // Started by srun.
  const ProgramResult task =
      run_program({"list"}, {.environment = {{"SLURM_STEP_NUM_TASKS", "4"}}});
  CHECK(task.err == result.err);
  CHECK_THAT(result.err, test::Says("KB-U015", "4", "DKERNBENCH_WITH_MPI"));
}

#endif

}  // namespace kernbench::test::process_team_test
