// Signals that come, and processes that are forked, while ranks run; ranks that loop on the host.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "test/failures/failure_case.h"

namespace kernbench::test {
namespace {

using std::chrono::milliseconds;

void send_soon(int signal) {
  std::thread([signal] {
    std::this_thread::sleep_for(milliseconds(100));
    ::kill(::getpid(), signal);
  }).detach();
}

// Neither calls anything nor returns.
[[noreturn]] void spin() {
  for (std::atomic<unsigned> i = 0;; ++i) {
  }
}

// Rank 0 waits for rank 1, which spins.
void while_rank_1_spins(int signal, const RuntimeOptions& options = {}) {
  Ranks world(2, options);
  world.init();
  world.spawn([&](int rank) {
    world.dist.barrier();
    if (rank == 1) {
      if (signal != 0) send_soon(signal);
      spin();
    }
    world.dist.all_reduce(world.ones());
  });
}

void while_a_kernel_spins() {
  Ranks world(1);
  world.spawn([&](int) {
    world.torch.launch(
        "k",
        [](tl::Context&, tl::Pointer) {
          send_soon(SIGTERM);
          spin();
        },
        world.ones());
  });
}

void state_of_ranks() {
  LocalRanks world(4);
  world.spawn([&](int rank) {
    if (rank == 0) world.dist.recv(world.ones(), 1);
    if (rank == 1) {
      world.pass_time();
      ::kill(::getpid(), SIGUSR1);
      std::this_thread::sleep_for(milliseconds(300));
      world.dist.send(world.ones(), 0);
    }
    if (rank == 2) world.pass_time();
  });
}

// Fails if the child has not ended after five seconds, or ends otherwise.
void expect_good_end(pid_t child) {
  for (int i = 0; i < 500; ++i) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      if (status == 0) return;
      throw std::runtime_error("the child has failed");
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  ::kill(child, SIGKILL);
  throw std::runtime_error("the child hangs");
}

void forks() {
  Ranks world(1);
  world.spawn([&](int) {
    world.torch.launch(
        "k", [](tl::Context&, tl::Pointer) {}, world.ones());
    const pid_t child = ::fork();
    if (child != 0) expect_good_end(child);
    world.torch.launch(
        "k", [](tl::Context&, tl::Pointer) {}, world.ones());
  });
}

}  // namespace

std::vector<FailureCase> signal_cases() {
  return {{"C13-rank-spins",
           [] {
             while_rank_1_spins(
                 0, {.rank_notice_time = milliseconds(20), .rank_time_limit = milliseconds(100)});
           }},
          {"F1-interrupt", [] { while_rank_1_spins(SIGINT); }},
          {"F1-terminate", [] { while_rank_1_spins(SIGTERM); }},
          {"F1-hang-up", [] { while_rank_1_spins(SIGHUP); }},
          {"F1-abort", [] { while_rank_1_spins(SIGABRT); }},
          {"F1-kernel", while_a_kernel_spins},
          {"F2-state", state_of_ranks},
          {"F3-fork", forks}};
}

}  // namespace kernbench::test
