// A user's program looks like this: it has benches of its own, and main() hands over.  Most of them
// fail in one way each, to see what the user is told.

#include <fmt/format.h>
#include <kernbench/kernbench.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>

#include "sim_engine/base/check.h"

namespace kb = kernbench;
using kb::benches::Row;

KERNBENCH_BENCH("own-rows", "two systems, three rows", {"factor", "2", "a number"}) {
  const std::int64_t factor = bench.settings().integer("factor", 1, 100);
  for (int i = 0; i < 2; ++i) {
    const auto torch = bench.make_context();
    torch->ones({1, 64}).copy_(
        kb::RuntimeContext::from_blob(std::vector<float>(64).data(), {1, 64}));
    bench.add_row(Row().set("name", fmt::format("run \"{}\", again", i)).set("value", i * factor));
  }
  bench.add_row(
      Row().set("name", "last").set("extra", 0.5).set("nothing", std::optional<double>()));
  bench.add_artifact("notes.txt", "from own-rows\n");
}

KERNBENCH_BENCH("fails-its-check", "a row that is wrong") {
  bench.submit_sentinel();
  bench.add_row(Row().set("wrong", 1), false);
}

KERNBENCH_BENCH("asks-for-its-rank", "a single driver asks for its rank") {
  const auto torch = bench.make_context();
  torch->distributed.init_process_group("ahbm");
  bench.add_row(Row().set("rank", torch->distributed.get_rank()));
}

KERNBENCH_BENCH("deadlocks", "rank 1 leaves while rank 0 waits in a barrier") {
  const auto torch = bench.make_context();
  torch->distributed.init_process_group("ahbm");
  torch->multiprocessing.spawn(
      [&](int rank) {
        torch->ahbm.set_device(rank);
        if (rank == 0) torch->distributed.barrier();
      },
      {}, torch->distributed.get_world_size());
}

KERNBENCH_BENCH("worker-raises", "a worker throws what it likes") {
  const auto torch = bench.make_context();
  torch->multiprocessing.spawn([](int) { throw std::runtime_error("boom"); }, {}, 1);
}

KERNBENCH_BENCH("worker-has-no-memory", "a worker throws std::bad_alloc") {
  const auto torch = bench.make_context();
  torch->multiprocessing.spawn([](int) { throw std::bad_alloc(); }, {}, 1);
}

KERNBENCH_BENCH("has-no-memory", "the bench throws std::bad_alloc") {
  throw std::bad_alloc();
}

KERNBENCH_BENCH("breaks-an-invariant", "a KB_CHECK fails") {
  KB_CHECK(bench.seed() == 12345, "the seed is {}", bench.seed());
}

KERNBENCH_BENCH("never-ends", "messages for ever") {
  const auto torch = bench.make_context();
  bench.add_row(Row().set("finished", 1));
  torch->distributed.init_process_group("ahbm");
  torch->multiprocessing.spawn(
      [&](int rank) {
        torch->ahbm.set_device(rank);
        while (true) torch->distributed.barrier();
      },
      {}, torch->distributed.get_world_size());
}

[[noreturn]] void compute_for_ever() {
  for (std::atomic<unsigned> i = 0;; ++i) {
  }
}

// The child works, so that it has a watch of its own, and is then told to end.
[[noreturn]] void work_and_be_ended() {
  const auto torch = std::make_unique<kb::RuntimeContext>(kb::Topology::load("tiny"));
  torch->multiprocessing.spawn(
      [&](int) {
        std::raise(SIGTERM);
        while (true) torch->ones({1, 4}).copy_(kb::RuntimeContext::tensor({1, 2, 3, 4}, {1, 4}));
      },
      {}, 1);
  std::_Exit(0);
}

KERNBENCH_BENCH("forks", "a child that a signal ends") {
  const auto torch = bench.make_context();
  torch->ones({1, 4}).copy_(kb::RuntimeContext::tensor({1, 2, 3, 4}, {1, 4}));
  const pid_t child = ::fork();
  if (child == 0) work_and_be_ended();
  int status = 0;
  ::waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  bench.add_row(Row().set("child", code).set("has_written", std::filesystem::exists("r.json")));
}

KERNBENCH_BENCH("host-computes", "after two rows, an oracle without end") {
  bench.submit_sentinel();
  for (int i = 0; i < 2; ++i) bench.add_row(Row().set("finished", i));
  compute_for_ever();
}

KERNBENCH_BENCH("rank-computes", "a rank that does not come back") {
  const auto torch = bench.make_context();
  bench.add_row(Row().set("finished", 1));
  torch->distributed.init_process_group("ahbm");
  torch->multiprocessing.spawn(
      [&](int rank) {
        torch->ahbm.set_device(rank);
        torch->distributed.barrier();
        if (rank == 1) compute_for_ever();
        torch->distributed.barrier();
      },
      {}, torch->distributed.get_world_size());
}

KERNBENCH_BENCH("point-computes", "a sweep whose third point is without end") {
  kb::benches::Sweep sweep(bench, "points");
  for (int i = 0; i < 3; ++i) {
    sweep.add(fmt::format("point {}", i), [i](kb::benches::PointContext& point) {
      const auto torch = point.make_context();
      torch->ones({1, 4}).copy_(kb::RuntimeContext::tensor({1, 2, 3, 4}, {1, 4}));
      if (i == 2) torch->multiprocessing.spawn([](int) { compute_for_ever(); }, {}, 1);
      return Row().set("i", i);
    });
  }
  sweep.run();
}

KERNBENCH_BENCH("submits-nothing", "rows out of thin air") {
  const auto torch = bench.make_context();
  bench.add_row(Row().set("ns", torch->engine().now_ns()));
}

KERNBENCH_BENCH("makes-nothing", "not even a context") {
  bench.add_row(Row().set("ns", 1));
}

// True if the variable names this point.
bool is_at(const char* variable, int point) {
  const char* const text = std::getenv(variable);
  return text != nullptr && std::atoi(text) == point;
}

// With INTERRUPT_AT=N point N sends the program a signal and then waits for its effect; with
// CRASH_AT=N it ends its process, with THROW_AT=N it throws.
KERNBENCH_BENCH("sweeps", "12 copies, and what is drawn of them") {
  bench.output_folder("own/sweeps");
  const pid_t program = ::getpid();
  kb::benches::Sweep sweep(bench, "copies");
  for (int i = 0; i < 12; ++i) {
    const bool is_last = is_at("INTERRUPT_AT", i);
    sweep.add(fmt::format("copy {}", i), [i, is_last, program](kb::benches::PointContext& point) {
      if (is_at("CRASH_AT", i)) std::raise(std::getenv("KILL") != nullptr ? SIGKILL : SIGSEGV);
      if (is_at("THROW_AT", i)) throw kb::DeviceError("KB-M010", fmt::format("copy {} is ill", i));
      const auto torch = point.make_context();
      kb::Tensor x = torch->zeros({1, 64 * (i + 1)});
      if (is_last) ::kill(program, std::getenv("SIGNAL") == nullptr ? SIGINT : SIGTERM);
      do {
        x.copy_(kb::RuntimeContext::from_blob(std::vector<float>(64 * 12).data(), x.shape()));
      } while (is_last);
      return Row().set("i", i).set("ns", torch->engine().now_ns());
    });
  }
  bench.add_artifact("summary.csv", kb::benches::to_csv(sweep.run()));
  bench.add_artifact("figures/dot.png", std::string("\x89PNG\0\r\n", 7));
}

// An all_reduce that adds a rank's own values twice.
KERNBENCH_REGISTER_ALGORITHM("own_values_twice",
                             [](kb::tl::Context& tl, const kb::ccl::KernelArgs& args) {
                               const kb::tl::Shape shape{args.n_elem};
                               kb::tl::Tensor travelling = tl.load(args.tensor, shape, args.dtype);
                               kb::tl::Tensor sum = travelling;
                               for (int step = 0; step < args.world_size; ++step) {
                                 tl.send(args.ring().next, travelling);
                                 travelling = tl.recv(args.ring().previous, shape, args.dtype);
                                 sum = sum + travelling;
                               }
                               tl.store(args.tensor, sum);
                             });

int main(int argc, char** argv) {
  kb::benches::register_collectives();
  return kb::benches::main(argc, argv);
}
