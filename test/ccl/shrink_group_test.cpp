// A rank dies, the others learn of it and go on without it (torch 2.9's shrink_group).

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/faults/fault.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::shrink_group_test {
namespace {

using distributed::SHRINK_ABORT;

constexpr int kRanks = 4;
constexpr int kDead = 2;
constexpr Time kDetected{70'000'000};
constexpr const char* kDeath = "rank=2 dies=20us detected=+50us";

Topology machine(const std::string& fault) {
  Topology topology = round_topology(SipTopology::ring_1d, kRanks);
  if (fault.empty()) return topology;
  ParsedFault parsed = parse_fault(fault);
  REQUIRE(parsed.wrong == "");
  topology.faults.push_back(std::move(parsed.fault));
  return topology;
}

const DPPolicy kOnOne = DPPolicy::on_one_pe();

float sum_of(RuntimeContext& torch, float own) {
  const Tensor x = torch.full({8}, own, {.dp = kOnOne}) * 1.0F;  // which takes time
  torch.distributed.all_reduce(x);
  return x.to_vector().front();
}

// Calls all_reduce until one fails; returns the ranks that have died.
std::vector<int> run_until_failure(RuntimeContext& torch) {
  try {
    while (true) sum_of(torch, 1);
  } catch (const DistBackendError& error) {
    return error.ranks();
  }
}

Time now(RuntimeContext& torch) {
  return simulation_of(torch).now();
}

// Runs `after` on the ranks that are left, with the rank that each was spawned as.
void run_with_death(const std::string& backend, const std::function<void(RuntimeContext&)>& before,
                    const std::function<void(RuntimeContext&, int)>& after) {
  RuntimeContext torch(machine(kDeath));
  torch.distributed.init_process_group(backend);
  int left = 0;
  run_ranks(torch, kRanks, [&](int rank) {
    torch.ahbm.set_device(rank);
    before(torch);
    const std::vector<int> dead =
        run_until_failure(torch);  // outside of CHECK, for a rank that dies
    CHECK(dead == std::vector{kDead});
    CHECK(rank != kDead);
    after(torch, rank);
    ++left;
  });
  CHECK(left == kRanks - 1);
}

TEST_CASE("the ranks that are left shrink the default group, count anew and go on",
          "[ccl][faults][shrink]") {
  const std::string backend = GENERATE("ahbm", "local");
  run_with_death(
      backend, [](RuntimeContext&) {},
      [](RuntimeContext& torch, int spawned) {
        distributed::DistributedContext& dist = torch.distributed;
        CHECK(now(torch) == kDetected);
        const auto group = dist.shrink_group({kDead});
        const int rank = spawned < kDead ? spawned : spawned - 1;
        CHECK(group.ranks() == std::vector{0, 1, 2});
        CHECK(dist.get_world_size() == 3);
        CHECK(dist.get_rank() == rank);
        CHECK(dist.get_rank(group) == rank);
        CHECK(dist.get_pg_count() == 1);
        CHECK(sum_of(torch, static_cast<float>(spawned)) == 0 + 1 + 3);

        const Tensor x = torch.full({4}, static_cast<float>(spawned), {.dp = kOnOne});
        dist.broadcast(x, 2);
        CHECK(x.to_vector().front() == 3);
        const auto pair = dist.new_group({0, 2});
        CHECK(dist.get_rank(pair) == (rank == 1 ? -1 : rank / 2));
        if (rank != 1) {
          CHECK(pair.ranks() == std::vector{0, 2});
          CHECK(dist.get_global_rank(pair, 1) == 2);
          CHECK(dist.get_group_rank(pair, 2) == 1);
        }
        if (rank == 0) CHECK(dist.recv(x) == 2);
        if (rank == 2) dist.send(x, 0);
        const auto mesh = dist.init_device_mesh("ahbm", {3});
        CHECK(mesh.get_coordinate() == std::vector{rank});
        dist.barrier();
      });
}

TEST_CASE("whoever waits for a rank that has died learns of it at one instant",
          "[ccl][faults][shrink]") {
  RuntimeContext torch(machine("rank=2 dies=1ns detected=69999ns"));
  torch.distributed.init_process_group("ahbm");
  const int what = GENERATE(0, 1, 2, 3, 4);
  CAPTURE(what);
  int told = 0;
  run_ranks(torch, kRanks, [&](int rank) {
    torch.ahbm.set_device(rank);
    distributed::DistributedContext& dist = torch.distributed;
    const Tensor x = torch.ones({8}, {.dp = kOnOne});
    if (rank == kDead) torch.exp(x).to_vector();  // and it dies
    const auto wait = [&] {
      std::vector<int> objects;
      if (what == 0) dist.all_reduce(x, {.async_op = true}).wait();
      if (what == 1) dist.all_gather_object(objects, rank);
      if (what == 2) dist.barrier();
      if (what == 3) dist.recv(x, kDead);
      if (what == 4) dist.isend(x, kDead).wait();
      torch.ahbm.synchronize();
    };
    CHECK_THAT(error_of<DistBackendError>(wait),
               Says("KB-C028", "rank 2 has died", "shrink_group({2})"));
    CHECK(now(torch) >= kDetected);
    CHECK(now(torch) < kDetected + Time{250'000});  // the news of a stream's end reaches the host
    CHECK_THAT(error_of<DistBackendError>([&] { dist.barrier(); }), Says("KB-C028"));
    CHECK_THAT(error_of<DistBackendError>([&] { dist.new_group({0, 1}); }), Says("KB-C028"));
    dist.shrink_group({kDead});
    CHECK(sum_of(torch, 1) == 3);
    ++told;
  });
  CHECK(told == kRanks - 1);
}

TEST_CASE("a group of some shrinks by the ranks in it, and others do not notice",
          "[ccl][faults][shrink]") {
  RuntimeContext torch(machine(kDeath));
  torch.distributed.init_process_group("ahbm");
  run_ranks(torch, kRanks, [&](int rank) {
    torch.ahbm.set_device(rank);
    distributed::DistributedContext& dist = torch.distributed;
    const auto some = dist.new_group({3, 2, 1}, {.sort_ranks = false});
    const auto unharmed = dist.new_group({0, 1});
    run_until_failure(torch);
    const Tensor x = torch.ones({8}, {.dp = kOnOne});
    if (rank < 2) dist.all_reduce(x, unharmed);
    if (rank > 0) {
      const auto left = dist.shrink_group({1}, {.group = some});
      CHECK(left.ranks() == std::vector{3, 1});
      CHECK(dist.get_rank() == rank);
      dist.all_reduce(x, left);
      CHECK_THAT(error_of<CollectiveError>([&] { dist.barrier(some); }), Says("KB-R002"));
    }
    CHECK(x.to_vector().front() == (rank == 0 ? 2 : 3));
  });
}

TEST_CASE("a failure that no rank catches ends the run, and the next one has all ranks",
          "[ccl][faults][shrink][errors]") {
  RuntimeContext torch(machine(kDeath));
  torch.distributed.init_process_group("ahbm");
  CHECK_THAT(error_of<SpawnException>([&] {
               run_ranks(torch, kRanks, [&](int rank) {
                 torch.ahbm.set_device(rank);
                 while (true) sum_of(torch, 1);
               });
             }),
             Says("KB-R001", "KB-C028", "rank 2 has died"));
  CHECK(torch.distributed.get_world_size() == kRanks);
}

// The death lies before the second run, too.
TEST_CASE("a shrunk default group is whole again in the next run", "[ccl][faults][shrink]") {
  RuntimeContext torch(machine(kDeath));
  torch.distributed.init_process_group("ahbm");
  for (int run = 0; run < 2; ++run) {
    run_ranks(torch, kRanks, [&](int rank) {
      torch.ahbm.set_device(rank);
      CHECK(torch.distributed.get_world_size() == kRanks);
      run_until_failure(torch);
      torch.distributed.shrink_group({kDead});
      CHECK(sum_of(torch, 1) == 3);
    });
  }
}

// Rank 2 computes, and calls the barrier when the group is gone.
TEST_CASE("SHRINK_ABORT ends what waits for a rank that does not call", "[ccl][shrink]") {
  RuntimeContext torch(machine(""));
  torch.distributed.init_process_group("ahbm");
  run_ranks(torch, kRanks, [&](int rank) {
    torch.ahbm.set_device(rank);
    distributed::DistributedContext& dist = torch.distributed;
    if (rank == 1) return;
    const Tensor x = torch.ones({8}, {.dp = kOnOne});
    const auto others = dist.new_group({0, 2, 3}, {.use_local_synchronization = true});
    dist.all_reduce(x, others);
    torch.ahbm.synchronize();
    if (rank == 2) {
      for (int i = 0; i < 50; ++i) torch.exp(x).to_vector();
      CHECK_THAT(error_of<CollectiveError>([&] { dist.barrier(others); }),
                 Says("KB-C028", "has aborted group"));
      return;
    }
    const auto waits = dist.barrier({.group = others, .async_op = true});
    std::vector<int> both;
    dist.all_gather_object(both, rank, dist.new_group({0, 3}, {.use_local_synchronization = true}));
    const auto pair = dist.shrink_group({1}, {.group = others, .shrink_flags = SHRINK_ABORT});
    CHECK_THAT(error_of<DistBackendError>([&] { waits.wait(); }),
               Says("KB-C028", "has aborted group"));
    dist.all_reduce(x, pair);
    CHECK(x.to_vector().front() == 6);
  });
}

// Ranks mix kernels, collectives, messages and objects, as training does, on a machine whose host
// needs time for each call.
struct Survival {
  std::vector<float> sums;  // of ones, one for each rank that is left
  int failures = 0;         // those that one of them has caught
};

Survival survive(const std::vector<std::string>& faults, const std::string& backend) {
  Topology topology = Topology::load(KERNBENCH_ROOT "/topologies/ring_1d_6.yaml");
  for (const std::string& fault : faults) topology.faults.push_back(parse_fault(fault).fault);
  RuntimeContext torch(topology);
  Survival survival;
  run_on_devices(torch, 6, [&](int) {
    distributed::DistributedContext& dist = torch.distributed;
    dist.init_process_group(backend);
    const Tensor large = torch.full({64, 64}, 0.5F, {.dp = kOnOne});
    std::vector<int> dead;
    int failures = 0;
    float sum = 0;
    for (int step = 0; step < 6;) {
      try {
        if (!dead.empty()) dist.shrink_group(dead, {.shrink_flags = SHRINK_ABORT});
        dead.clear();
        const auto pair = dist.new_subgroups(dist.get_world_size() % 2 == 0 ? 2 : 1).first;
        const Tensor x = torch.exp(large);
        dist.all_reduce(x, {.group = pair, .async_op = true}).wait();
        dist.barrier();
        std::vector<int> objects;
        dist.all_gather_object(objects, step);
        const int next = (dist.get_rank() + 1) % dist.get_world_size();
        const auto sent = dist.get_world_size() > 1 ? dist.isend(x, next) : distributed::Work();
        if (sent) dist.recv(torch.exp(large));
        if (sent) sent.wait();
        dist.all_reduce(x);
        sum = sum_of(torch, 1);
        ++step;
      } catch (const DistBackendError& error) {
        dead = error.ranks();
        ++failures;
      }
    }
    survival.sums.push_back(sum);
    survival.failures = failures;
    dist.destroy_process_group();
  });
  return survival;
}

TEST_CASE("a rank may die at any instant", "[ccl][faults][shrink]") {
  const std::string backend = GENERATE("ahbm", "local");
  for (int at = 1; at <= 361; at += 12) {
    CAPTURE(backend, at);
    const Survival survival = survive({fmt::format("rank=2 dies={}us detected=7us", at)}, backend);
    const bool is_late = survival.failures == 0;  // for the program, which ends before
    if (is_late) CHECK(survival.sums.size() >= 5);
    if (!is_late) CHECK(survival.sums == std::vector<float>(5, 5));
  }
}

TEST_CASE("several ranks may die, at once or while others shrink their group",
          "[ccl][faults][shrink]") {
  for (int at = 5; at <= 125; at += 8) {
    CAPTURE(at);
    const std::string first = fmt::format("rank=2 dies={}us detected=7us", at);
    const std::string second = fmt::format("rank=0 dies={}us detected=7us", at + at % 3);
    const Survival survival = survive({first, second, "rank=5 dies=40us detected=1us"}, "ahbm");
    CHECK(survival.sums == std::vector<float>(3, 3));
  }
}

// Rank 2 has called the barrier before it dies, so that it is one of those that begin it.
TEST_CASE("a rank that dies in a collective that it has called still runs it",
          "[ccl][faults][shrink]") {
  RuntimeContext torch(machine("rank=2 dies=2us detected=90us"));
  torch.distributed.init_process_group("ahbm");
  int passed = 0;
  run_ranks(torch, kRanks, [&](int rank) {
    torch.ahbm.set_device(rank);
    const Tensor x = torch.ones({8}, {.dp = kOnOne});
    for (int i = 0; i < 50 && rank != kDead; ++i) torch.exp(x).to_vector();
    if (rank != kDead) CHECK(now(torch) > Time{2'000'000});
    torch.distributed.barrier();
    CHECK(rank != kDead);
    ++passed;
    const std::vector<int> dead = run_until_failure(torch);
    CHECK(dead == std::vector{kDead});
    torch.distributed.shrink_group(std::span<const int>(dead));
    CHECK(sum_of(torch, 1) == 3);
  });
  CHECK(passed == 3);
}

TEST_CASE("the result of a rank that has died is the default one", "[ccl][faults][shrink]") {
  RuntimeContext torch(machine(kDeath));
  torch.distributed.init_process_group("ahbm");
  const std::vector<std::string> names = run_ranks(torch, kRanks, [&](int rank) {
    torch.ahbm.set_device(rank);
    run_until_failure(torch);
    return fmt::format("rank {}", rank);
  });
  CHECK(names == std::vector<std::string>{"rank 0", "rank 1", "", "rank 3"});
  CHECK(torch.distributed.get_world_size() == kRanks);
}

TEST_CASE("who calls for ever in a group that has failed is ended", "[ccl][faults][shrink]") {
  RuntimeContext torch(machine(kDeath));
  torch.distributed.init_process_group("ahbm");
  const auto run = [&] {
    run_ranks(torch, kRanks, [&](int rank) {
      torch.ahbm.set_device(rank);
      while (true) run_until_failure(torch);
    });
  };
  CHECK_THAT(error_of<DeadlockError>(run), Says("KB-D002", "were refused"));
}

TEST_CASE("what shrink_group refuses", "[ccl][shrink][errors]") {
  RuntimeContext torch(machine(""));
  torch.distributed.init_process_group("ahbm");
  const auto refuses = [&](std::vector<int> excluded) {
    return error_of<CollectiveError>(
        [&] { torch.distributed.shrink_group(std::span<const int>(excluded)); });
  };
  CHECK_THAT(refuses({1}), Says("KB-R002", "in spawn()"));
  run_ranks(torch, kRanks, [&](int rank) {
    if (rank > 0) return;
    CHECK_THAT(refuses({}), Says("KB-C020", "ranks_to_exclude cannot be empty"));
    CHECK_THAT(refuses({4}), Says("KB-C020", "Rank 4 is out of bounds for group size 4"));
    CHECK_THAT(refuses({-1}), Says("KB-C020", "Rank -1 is out of bounds"));
    CHECK_THAT(refuses({1, 1}), Says("KB-C020", "Rank 1 is given twice"));
    CHECK_THAT(refuses({0, 1, 2, 3}), Says("KB-C020", "Cannot exclude all ranks"));
    CHECK_THAT(refuses({0}), Says("KB-R002", "Current rank 0 is in the list"));
  });
}

}  // namespace
}  // namespace kernbench::test::shrink_group_test
