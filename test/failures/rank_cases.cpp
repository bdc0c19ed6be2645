// Ranks that wait for ever, throw, or call torch in the wrong order.

#include <fmt/format.h>

#include <stdexcept>

#include "test/failures/failure_case.h"

namespace kernbench::test {
namespace {

void receive_first() {
  LocalRanks world(4);
  world.spawn([&](int rank) {
    const Tensor x = world.ones();
    world.dist.recv(x, (rank + 3) % 4);
    world.dist.send(x, (rank + 1) % 4);
  });
}

// Three sends before the first receive, in a ring of kernels.
void send_before_receive(int depth) {
  Ranks world(3, {.ccl = ccl::Config::parse(fmt::format("defaults: {{depth: {}}}", depth))});
  world.init("ahbm");
  world.spawn([&](int) {
    world.torch.launch(
        "shift",
        [](tl::Context& tl, tl::Pointer p) {
          const tl::Tensor own = tl.load(p, {4}, DType::f32);
          for (int i = 0; i < 3; ++i) tl.send(tl::Direction::global_east, own);
          for (int i = 0; i < 3; ++i) tl.recv(tl::Direction::global_west, {4}, DType::f32);
        },
        world.ones());
  });
}

void polls() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    if (rank == 1) return world.pass_time();
    const auto work = world.dist.irecv(world.ones(), 1);
    while (!work.is_completed()) {
    }
  });
}

void calls_for_ever() {
  LocalRanks world(3);
  world.spawn([&](int rank) {
    if (rank == 0) return;
    if (rank == 1) return world.dist.recv(world.ones(), 2), void();
    for (;;) {
      try {
        world.dist.barrier();
      } catch (...) {
      }
    }
  });
}

void kernel_without_end() {
  Ranks world(1, {.command_limit = 100'000});
  world.spawn([&](int) {
    world.torch.launch(
        "spin",
        [](tl::Context& tl, tl::Pointer p) {
          for (;;) tl.load(p, {4}, DType::f32);
        },
        world.ones());
  });
}

template <class Thrown>
void throws(const Thrown& thrown) {
  LocalRanks world(3);
  world.spawn([&](int rank) {
    world.dist.barrier();
    world.pass_time();
    if (rank == 1) throw thrown;
    world.dist.all_reduce(world.ones());
  });
}

struct SaysNothing : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

void kernel_throws() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    world.torch.launch(
        "ring_step",
        [&](tl::Context&, tl::Pointer) {
          if (rank == 1) throw std::runtime_error("boom");
        },
        world.ones());
    world.dist.barrier();
  });
}

// Rank 0 waits first, for what cannot be; it is rank 1's isend that fails both.
void work_fails() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    if (rank == 0) {
      world.dist.recv(world.ones({2}), 1);
    } else {
      world.pass_time();
      world.dist.isend(world.ones({4}), 0).wait();
    }
  });
}

void all_throw() {
  LocalRanks world(4);
  world.spawn([&](int rank) {
    world.dist.barrier();
    if (rank != 2) throw std::runtime_error(fmt::format("boom {}", rank));
    world.dist.barrier();
  });
}

void throws_again_after_wait() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    try {
      throw std::runtime_error(fmt::format("of rank {}", rank));
    } catch (...) {
      world.dist.barrier();
      if (rank == 1) throw;
    }
    world.dist.barrier();
  });
}

struct WaitsAtEnd {
  distributed::DistributedContext& dist;
  ~WaitsAtEnd() { dist.barrier(); }
};

void waits_while_unwound() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    if (rank == 0) return world.dist.barrier(), void();
    world.pass_time();
    const WaitsAtEnd last{world.dist};
    const WaitsAtEnd first{world.dist};
    throw std::runtime_error("boom");
  });
}

void swallows_cancellation() {
  LocalRanks world(3);
  world.spawn([&](int rank) {
    if (rank == 1) {
      world.pass_time();
      throw std::runtime_error("boom");
    }
    for (;;) {
      try {
        world.dist.barrier();
        world.dist.barrier();
      } catch (...) {
        if (rank == 0) throw;
      }
    }
  });
}

void nested_spawn() {
  LocalRanks world(2);
  world.spawn([&](int) { world.torch.multiprocessing.spawn([](int) {}, {}, 2); });
}

void before_init() {
  Ranks world(2);
  world.spawn([&](int) { world.dist.barrier(); });
}

void init_twice() {
  Ranks world(2);
  world.init();
  world.init();
}

void after_destroy() {
  LocalRanks world(2);
  world.dist.destroy_process_group();
  world.spawn([&](int) { world.dist.barrier(); });
}

void destroy_without_init() {
  Ranks world(2);
  world.dist.destroy_process_group();
}

void alone() {
  LocalRanks world(2);
  world.dist.all_reduce(world.ones());
}

}  // namespace

std::vector<FailureCase> rank_cases() {
  return {{"A1-receive-first", receive_first},
          {"A2-depth-1", [] { send_before_receive(1); }},
          {"A2-depth-2", [] { send_before_receive(2); }},
          {"A2-depth-3", [] { send_before_receive(3); }},
          {"A3-poll", polls},
          {"A3-calls", calls_for_ever},
          {"A3-kernel", kernel_without_end},
          {"A14-runtime-error", [] { throws(std::runtime_error("boom")); }},
          {"A14-int", [] { throws(7); }},
          {"A14-nullptr", [] { throws(nullptr); }},
          {"A14-null-what", [] { throws(SaysNothing()); }},
          {"A14-cancelled", [] { throws(Cancelled()); }},
          {"A14-escapes", [] { throws(std::runtime_error("\x1b[2J\u202Eboom\u200B\xff")); }},
          {"A15-kernel-throws", kernel_throws},
          {"A16-work-fails", work_fails},
          {"A17-all-throw", all_throw},
          {"A18-throws-again", throws_again_after_wait},
          {"A18-destructor", waits_while_unwound},
          {"A19-swallows", swallows_cancellation},
          {"A20-nested-spawn", nested_spawn},
          {"A21-before-init", before_init},
          {"A21-init-twice", init_twice},
          {"A21-after-destroy", after_destroy},
          {"A21-destroy-without-init", destroy_without_init},
          {"A21-alone", alone}};
}

}  // namespace kernbench::test
