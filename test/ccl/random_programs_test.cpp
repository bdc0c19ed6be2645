// Random programs of async collectives and messages over groups that overlap.  Each rank issues
// those of different groups in an order of its own, and waits for them in another.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "test/ccl/group_under_test.h"
#include "test/support/sanitized.h"
#include "test/support/small_topology.h"

namespace kernbench::test::random_programs_test {
namespace {

using Random = std::mt19937;

int below(Random& random, int count) {
  return static_cast<int>(random() % static_cast<unsigned>(count));
}

enum class Kind { all_reduce, broadcast, all_gather, reduce_scatter, all_to_all, reduce, message };

struct Op {
  int group = 0;
  Kind kind = Kind::all_reduce;
  int salt = 0;  // of what the ranks bring
  int root = 0;  // in the group; of a message, the sender, and the next member receives
  std::int64_t count = 0;
  DPPolicy gives;
  DPPolicy takes;
};

const std::vector<std::vector<int>> kGroups = {{0, 1, 2, 3}, {0, 2, 3}, {3, 1}, {2, 0, 1}};

std::vector<Op> random_ops(Random& random) {
  const auto lies = [&] { return placements()[random() % placements().size()]; };
  std::vector<Op> ops;
  for (int i = 0; i < 14; ++i) {
    Op op;
    op.group = below(random, static_cast<int>(kGroups.size()));
    op.kind = static_cast<Kind>(below(random, 7));
    op.salt = 10 * i;
    op.root = below(random, static_cast<int>(kGroups[static_cast<std::size_t>(op.group)].size()));
    op.count = below(random, 3) == 0 ? below(random, 20'000) : below(random, 40);
    op.gives = lies();
    op.takes = lies();
    ops.push_back(op);
  }
  return ops;
}

struct Issued {
  distributed::Work work;
  Tensor taken;
  Elements expected;
};

Elements maximum(const std::vector<int>& ranks, const Op& op, std::int64_t first,
                 std::int64_t count) {
  Elements all(static_cast<std::size_t>(count), -100);
  for (const int rank : ranks) {
    const Elements own = elements_of(rank + op.salt, count, first);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], own[i]);
  }
  return all;
}

// Issues this rank's part of an operation; nothing if it has none.
std::optional<Issued> issue(RuntimeContext& torch, const distributed::ProcessGroup& group,
                            const Op& op, int rank) {
  const std::vector<int>& ranks = kGroups[static_cast<std::size_t>(op.group)];
  const auto self = static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
  const int size = static_cast<int>(ranks.size());
  if (self == size) return std::nullopt;
  auto& distributed = torch.distributed;
  const distributed::CollectiveOptions options{.group = group, .async_op = true};
  const int root = ranks[static_cast<std::size_t>(op.root)];
  const auto bring = [&](std::int64_t count) {
    return make(torch, {count}, {.dp = op.gives}, elements_of(rank + op.salt, count));
  };
  const auto blank = [&](std::int64_t count, const DPPolicy& dp) {
    return make(torch, {count}, {.dp = dp}, Elements(static_cast<std::size_t>(count), 55));
  };
  switch (op.kind) {
    case Kind::all_reduce: {
      const Tensor x = bring(op.count);
      return Issued{distributed.all_reduce(x, ReduceOp::max, options), x,
                    maximum(ranks, op, 0, op.count)};
    }
    case Kind::broadcast: {
      const Tensor x = bring(op.count);
      return Issued{distributed.broadcast(x, {.src = root, .group = group, .async_op = true}), x,
                    elements_of(root + op.salt, op.count)};
    }
    case Kind::reduce: {
      const Tensor x = bring(op.count);
      const auto work = distributed.reduce(x, root, ReduceOp::max, options);
      if (rank != root) return Issued{work, {}, {}};
      return Issued{work, x, maximum(ranks, op, 0, op.count)};
    }
    case Kind::all_gather: {
      const Tensor out = blank(op.count * size, op.takes);
      Elements expected;
      for (const int other : ranks) {
        const Elements block = elements_of(other + op.salt, op.count);
        expected.insert(expected.end(), block.begin(), block.end());
      }
      return Issued{distributed.all_gather_into_tensor(out, bring(op.count), options), out,
                    expected};
    }
    case Kind::reduce_scatter: {
      const Tensor out = blank(op.count, op.takes);
      return Issued{
          distributed.reduce_scatter_tensor(out, bring(op.count * size), ReduceOp::max, options),
          out, maximum(ranks, op, self * op.count, op.count)};
    }
    case Kind::all_to_all: {
      const Tensor out = blank(op.count * size, op.takes);
      Elements expected;
      for (const int other : ranks) {
        const Elements block = elements_of(other + op.salt, op.count, self * op.count);
        expected.insert(expected.end(), block.begin(), block.end());
      }
      return Issued{distributed.all_to_all_single(out, bring(op.count * size), {}, {}, options),
                    out, expected};
    }
    case Kind::message:
      break;
  }
  const int next = ranks[static_cast<std::size_t>((op.root + 1) % size)];
  if (rank == root) {
    return Issued{
        distributed.isend(bring(op.count), next, {.group = group, .tag = op.salt}), {}, {}};
  }
  if (rank != next) return std::nullopt;
  const Tensor in = blank(op.count, op.takes);
  return Issued{distributed.irecv(in, root, {.group = group, .tag = op.salt}), in,
                elements_of(root + op.salt, op.count)};
}

// The operations in an order of the rank's own, in which those of one group follow each other as
// they must.
std::vector<Op> shuffled(std::vector<Op> ops, Random& random) {
  for (int swaps = 0; swaps < 40; ++swaps) {
    const auto i = static_cast<std::size_t>(below(random, static_cast<int>(ops.size()) - 1));
    if (ops[i].group != ops[i + 1].group) std::swap(ops[i], ops[i + 1]);
  }
  return ops;
}

std::string run_random(unsigned seed, const RuntimeOptions& options = {}) {
  Random random(seed);
  const std::vector<Op> ops = random_ops(random);
  const Topology topology = round_topology(SipTopology::torus_2d, 2, 2, 2, 1);
  const auto run_rank = [&](const Member& m) {
    std::vector<distributed::ProcessGroup> groups;
    for (const std::vector<int>& ranks : kGroups) {
      groups.push_back(m.torch.distributed.new_group(ranks, {.sort_ranks = false}));
    }
    Random own(seed * 4 + static_cast<unsigned>(m.rank));
    std::vector<Issued> issued;
    for (const Op& op : shuffled(ops, own)) {
      auto each = issue(m.torch, groups[static_cast<std::size_t>(op.group)], op, m.rank);
      if (each) issued.push_back(std::move(*each));
    }
    std::shuffle(issued.begin(), issued.end(), own);
    std::string wrong_ones;
    for (const Issued& each : issued) {
      each.work.wait();
      if (each.taken.defined()) wrong_ones += wrong(each.taken, each.expected);
    }
    return wrong_ones;
  };
  const auto said = run_group(topology, {0, 1, 2, 3}, run_rank, options);
  return fmt::format("{}", fmt::join(said, "\n"));
}

TEST_CASE("random programs over overlapping groups give what a plain reference does",
          "[ccl][collectives][random]") {
  for (unsigned seed = 1; seed <= (kIsSanitized ? 8U : 60U); ++seed) {
    CAPTURE(seed);
    CHECK(run_random(seed) == "");
  }
}

TEST_CASE("random programs give the same in any order of simultaneous events",
          "[ccl][collectives][random][ties]") {
  for (unsigned seed = 1; seed <= (kIsSanitized ? 4U : 20U); ++seed) {
    CAPTURE(seed);
    CHECK(run_random(seed, {.shuffle_ties = seed}) == "");
  }
}

TEST_CASE("a thousand random programs", "[.][ccl][long]") {
  for (unsigned seed = 1000; seed < 2000; ++seed) {
    CAPTURE(seed);
    REQUIRE(run_random(seed) == "");
  }
}

}  // namespace
}  // namespace kernbench::test::random_programs_test
