// Workers that end the process, or try to, and contexts that end with their workers.

#include <pthread.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "runtime/torch/run_ranks.h"
#include "sim_engine/base/check.h"
#include "test/failures/failure_case.h"

namespace kernbench::test {
namespace {

void in_rank_1(void (*end)()) {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    world.dist.barrier();
    if (rank == 1) end();
    world.dist.barrier();
  });
}

void in_kernel() {
  Ranks world(1);
  world.spawn([&](int) {
    world.torch.launch(
        "k", [](tl::Context&, tl::Pointer) { std::exit(3); }, world.ones());
  });
}

void by_main() {
  LocalRanks world(2);
  world.torch.multiprocessing.spawn([&](int) { world.dist.barrier(); }, std::tuple<>(), 2,
                                    {.join = false});
  std::exit(3);
}

void throw_where_nothing_may_leave() noexcept {
  [[maybe_unused]] const auto missing = std::vector<int>().at(3);
}

void not_joined() {
  LocalRanks world(2);
  world.torch.multiprocessing.spawn([&](int rank) { world.dist.recv(world.ones(), 1 - rank); },
                                    std::tuple<>(), 2, {.join = false});
  world.pass_time();
}

void thrown_before_join() {
  LocalRanks world(2);
  world.torch.multiprocessing.spawn([&](int rank) { world.dist.recv(world.ones(), 1 - rank); },
                                    std::tuple<>(), 2, {.join = false});
  world.pass_time();
  world.dist.init_process_group("local");
}

void joined_after_its_context() {
  auto world = std::make_unique<LocalRanks>(2);
  auto ranks = world->torch.multiprocessing.spawn([](int) {}, std::tuple<>(), 2, {.join = false});
  world.reset();
  ranks.join();
}

void joined_by_a_rank() {
  LocalRanks world(2);
  std::optional<multiprocessing::ProcessContext> ranks;
  ranks = world.torch.multiprocessing.spawn([&](int) { ranks->join(); }, std::tuple<>(), 2,
                                            {.join = false});
  ranks->join();
}

void destroyed_by_a_worker() {
  auto world = std::make_unique<LocalRanks>(2);
  run_ranks(world->torch, 2, [&](int rank) {
    if (rank == 1) world.reset();
  });
}

void called_on_a_thread() {
  LocalRanks world(2);
  world.spawn([&](int rank) {
    world.dist.barrier();
    if (rank == 1) std::thread([&] { world.dist.all_reduce(world.ones()); }).join();
    world.dist.barrier();
  });
}

void kernel_without_memory() {
  Ranks world(1);
  world.spawn([&](int) {
    world.torch.launch(
        "k", [](tl::Context&, tl::Pointer) { throw std::bad_alloc(); }, world.ones());
  });
}

void run_out_of_memory() {
  throw std::bad_alloc();
}

void no_memory_where_nothing_may_leave() noexcept {
  run_out_of_memory();
}

void bug_of_ours() {
  LocalRanks world(2);
  world.spawn([](int) { KB_CHECK(1 + 1 == 3, "of {}", "arithmetic"); });
}

int depth_of(int n) {
  volatile char large[4096];
  large[0] = static_cast<char>(n);
  return n < 0 ? 0 : depth_of(n + 1) + large[0];
}

void use_nullptr() {
  volatile std::uintptr_t nowhere = 0;
  *reinterpret_cast<volatile int*>(nowhere) = 1;
}

void fault_in_kernel() {
  Ranks world(1);
  world.spawn([&](int) {
    world.torch.launch(
        "k", [](tl::Context&, tl::Pointer) { use_nullptr(); }, world.ones());
  });
}

}  // namespace

std::vector<FailureCase> process_cases() {
  return {{"A13-exit", [] { in_rank_1([] { std::exit(3); }); }},
          {"A13-exit-0", [] { in_rank_1([] { std::exit(0); }); }},
          {"A13-quick-exit", [] { in_rank_1([] { std::quick_exit(3); }); }},
          {"A13-abort", [] { in_rank_1([] { std::abort(); }); }},
          {"A13-terminate", [] { in_rank_1(throw_where_nothing_may_leave); }},
          {"A13-pthread-exit", [] { in_rank_1([] { pthread_exit(nullptr); }); }},
          {"A13-kernel", in_kernel},
          {"A13-main", by_main},
          {"A20-joined-by-a-rank", joined_by_a_rank},
          {"A25-thread", called_on_a_thread},
          {"B4-not-joined", not_joined},
          {"B4-joined-afterwards", joined_after_its_context},
          {"B4-destroyed-by-a-worker", destroyed_by_a_worker},
          {"B6-no-memory", [] { in_rank_1(no_memory_where_nothing_may_leave); }},
          {"B6-kernel-no-memory", kernel_without_memory},
          {"B4-thrown-before-join", thrown_before_join},
          {"B5-stack", [] { in_rank_1([] { depth_of(0); }); }},
          {"B5-fault", [] { in_rank_1(use_nullptr); }},
          {"B5-fault-kernel", fault_in_kernel},
          {"X-bug", bug_of_ours}};
}

}  // namespace kernbench::test
