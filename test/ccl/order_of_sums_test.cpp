// The order of sums that a plan and a cut tell is the one that a simulation adds in: an evaluator
// of its own computes the printed trees, and gets the simulated bits.

#include "ccl/backend/order_of_sums.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "runtime/torch/run_ranks.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/ccl/printed_tree.h"
#include "test/support/small_topology.h"

namespace kernbench::test::order_of_sums_test {
namespace {

using ccl::Algorithm;
using ccl::OrderOfSums;
using ccl::SumTrees;
using distributed::CollectiveKind;

constexpr std::array kKinds = {CollectiveKind::all_reduce, CollectiveKind::reduce,
                               CollectiveKind::reduce_scatter};

// What runs.

struct Run {
  const Topology& topology;
  const Algorithm& algorithm;
  CollectiveKind kind = CollectiveKind::all_reduce;
  DPPolicy dp = {};
  ReduceOp op = ReduceOp::sum;
};

// One call of it.
struct Data {
  DType dtype = DType::f32;
  std::int64_t count = 0;  // that each rank gives
};

ccl::Config config_of(const Run& run) {
  if (run.kind == CollectiveKind::all_reduce) {
    return ccl::Config::parse(fmt::format("defaults: {{algorithm: {}}}", run.algorithm.name));
  }
  return ccl::Config::parse(fmt::format("rules: [{{{}: {{algorithm: {}}}}}]",
                                        traits_of(run.kind).name, run.algorithm.name));
}

Leaf summand_of(int rank, const DPPolicy& dp, const ShardInfo& shard) {
  return {rank, dp.cube == Shard::partial ? shard.cube : 0, dp.pe == Shard::partial ? shard.pe : 0};
}

Tensor make_input(RuntimeContext& torch, int rank, const Run& run, const Data& data) {
  const Shape shape{data.count};
  const Tensor x = torch.empty(shape, {.dtype = data.dtype, .dp = run.dp});
  for (std::size_t i = 0; i < x.shards().size(); ++i) {
    const ShardInfo& shard = x.shards()[i];
    std::vector<float> values;
    for (const std::int64_t position : positions_of(shard, shape)) {
      values.push_back(drawn(summand_of(rank, run.dp, shard), position, data.dtype));
    }
    Tensor(x).copy_shard_(i, RuntimeContext::tensor(values, shard.shape));
  }
  return x;
}

std::vector<float> reduce(RuntimeContext& torch, int rank, const Run& run, const Data& data) {
  Tensor x = make_input(torch, rank, run, data);
  switch (run.kind) {
    case CollectiveKind::all_reduce:
      torch.distributed.all_reduce(x, run.op);
      return x.to_vector<float>();
    case CollectiveKind::reduce:
      torch.distributed.reduce(x, 0, run.op);
      return rank == 0 ? x.to_vector<float>() : std::vector<float>();
    default:
      break;
  }
  const Tensor sums = torch.empty({data.count / run.topology.system.sip_count},
                                  {.dtype = data.dtype, .dp = run.dp});
  torch.distributed.reduce_scatter_tensor(sums, x, run.op);
  return sums.to_vector<float>();
}

// By call and rank: the elements that it has afterwards.
using Results = std::vector<std::vector<std::vector<float>>>;

Results simulate(const Run& run, const std::vector<Data>& calls) {
  const int ranks = run.topology.system.sip_count;
  RuntimeContext torch(run.topology, {.ccl = std::make_shared<const ccl::Config>(config_of(run))});
  torch.distributed.init_process_group("ahbm");
  Results results(calls.size(), std::vector<std::vector<float>>(static_cast<std::size_t>(ranks)));
  run_on_devices(torch, ranks, [&](int rank) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      results[i][static_cast<std::size_t>(rank)] = reduce(torch, rank, run, calls[i]);
    }
  });
  return results;
}

OrderOfSums order_of(const Run& run, const Data& data) {
  const ccl::Config config = config_of(run);
  std::vector<int> sips(static_cast<std::size_t>(run.topology.system.sip_count));
  std::iota(sips.begin(), sips.end(), 0);
  return ccl::find_order(
      {run.topology, config, run.algorithm, run.kind, sips, data.count, data.dtype, run.dp});
}

struct Compared {
  std::int64_t elements = 0;
  std::int64_t wrong = 0;
  std::int64_t apart = 0;    // whose bits are not the same on all ranks
  std::int64_t ordered = 0;  // whose bits are others if ranks are named otherwise
};

// Compares each element on each rank with its printed tree.
class Comparison {
 public:
  Comparison(const Run& run, const Data& data)
      : data_(data), size_(run.topology.system.sip_count), order_(order_of(run, data)) {}

  void compare(const std::vector<std::vector<float>>& results, Compared& all) {
    std::int64_t number = 0;
    for (std::int64_t element = 0; element < data_.count; ++element) {
      const std::vector<SumTrees::Tree>& sums = order_.sums_of(element);
      all.apart += order_.has_same_bits(sums) ? 0 : 1;
      for (std::size_t rank = 0; rank < sums.size(); ++rank) {
        if (sums[rank] == SumTrees::kNone) continue;
        const auto index = static_cast<std::size_t>(element) % results[rank].size();
        all.wrong += value(sums[rank], element, 0) != results[rank][index];
        all.ordered += value(sums[rank], element, 1) != results[rank][index];
        ++number;
      }
    }
    all.elements += number;
    // Nothing that a rank has is left out.
    const auto count = [](std::int64_t sum, const auto& of) { return sum + std::ssize(of); };
    CHECK(number == std::accumulate(results.begin(), results.end(), std::int64_t{0}, count));
  }

 private:
  // The sum's value, if each rank had the values of the one so many behind it.
  float value(SumTrees::Tree tree, std::int64_t element, int shift) {
    const auto [known, is_new] = printed_.try_emplace(tree);
    if (is_new) known->second = std::make_unique<PrintedTree>(order_.trees.text(tree));
    return known->second->value(data_.dtype, [&](Leaf leaf) {
      leaf.rank = (leaf.rank + shift) % size_;
      return drawn(leaf, element, data_.dtype);
    });
  }

  const Data data_;
  const int size_;
  const OrderOfSums order_;
  std::map<SumTrees::Tree, std::unique_ptr<PrintedTree>> printed_;
};

Compared compare(const Run& run, const std::vector<Data>& calls) {
  const Results results = simulate(run, calls);
  Compared all;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Comparison(run, calls[i]).compare(results[i], all);
  }
  return all;
}

bool can_run(const Algorithm& algorithm, CollectiveKind kind, const Topology& topology) {
  if (algorithm.plan == nullptr || !serves(algorithm, kind)) return false;
  if (algorithm.network == ccl::Network::adds_up && !provides(topology, algorithm.network)) {
    return false;
  }
  std::vector<int> sips(static_cast<std::size_t>(topology.system.sip_count));
  std::iota(sips.begin(), sips.end(), 0);
  return describe_misfit(algorithm, ccl::shape_of_sips(topology, sips)).empty();
}

// Networks of so many SIPs.
std::vector<Topology> networks_of(int ranks) {
  std::vector<Topology> all = {round_topology(SipTopology::ring_1d, ranks),
                               joined_topology(SipTopology::switched, ranks)};
  all.back().system.network_switch.sums.emplace();
  for (const int height : {2, 3, 4}) {
    if (ranks % height != 0 || ranks / height < height) continue;
    all.push_back(round_topology(SipTopology::torus_2d, ranks / height, height));
    all.push_back(round_topology(SipTopology::mesh_2d_no_wrap, ranks / height, height));
  }
  return all;
}

// Sizes for which chunks are empty, uneven, and of several slices.
std::vector<Data> calls_of(CollectiveKind kind, int ranks) {
  const int multiple = kind == CollectiveKind::reduce_scatter ? ranks : 1;
  std::vector<Data> calls;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t count : {1, 21, 100}) calls.push_back({dtype, count * multiple});
  }
  return calls;
}

TEST_CASE("each algorithm that adds, on 2 to 16 ranks: the printed tree gives the simulated bits",
          "[ccl][order][exhaustive]") {
  std::set<std::string_view> algorithms;
  for (int ranks = 2; ranks <= 16; ++ranks) {
    Compared all;
    for (const Topology& topology : networks_of(ranks)) {
      for (const CollectiveKind kind : kKinds) {
        for (const Algorithm& algorithm : ccl::library_algorithms()) {
          if (!can_run(algorithm, kind, topology)) continue;
          CAPTURE(ranks, name_of(topology.system.topology), topology.system.h, traits_of(kind).name,
                  algorithm.name);
          const Compared one = compare({topology, algorithm, kind}, calls_of(kind, ranks));
          CHECK(one.wrong == 0);
          CHECK(one.apart == 0);
          all.elements += one.elements;
          all.ordered += one.ordered;
          algorithms.insert(algorithm.name);
        }
      }
    }
    CAPTURE(ranks, all.elements, all.ordered);
    CHECK(all.elements > 5'000);
    // Two summands have one order; of more, another order would show.
    CHECK((ranks == 2 ? all.ordered == 0 : all.ordered > all.elements / 20));
  }
  CHECK(algorithms.size() == 19);
}

const Algorithm& algorithm_named(std::string_view name) {
  const Algorithm* const found = ccl::find_algorithm(name);
  REQUIRE(found != nullptr);
  return *found;
}

// 2 x 2 cubes of 2 PEs, each with a summand of its own or with a copy.
TEST_CASE("sums inside a SIP, over cubes and PEs, are in the printed tree", "[ccl][order]") {
  const auto [dp, per_rank] = GENERATE(values<std::pair<DPPolicy, int>>(
      {{{.cube = Shard::partial, .pe = Shard::column_wise}, 4},
       {{.cube = Shard::partial, .pe = Shard::partial}, 8},
       {{.cube = Shard::column_wise, .pe = Shard::partial}, 2},
       {{.cube = Shard::replicate, .pe = Shard::column_wise}, 1}}));
  for (const int ranks : {1, 2, 3, 4}) {
    const Topology topology = round_topology(SipTopology::ring_1d, ranks, 1, 2, 2);
    for (const Algorithm& algorithm : ccl::library_algorithms()) {
      const auto kind = CollectiveKind::all_reduce;
      if (!can_run(algorithm, kind, topology)) continue;
      CAPTURE(algorithm.name, ranks, per_rank);
      const Run run{topology, algorithm, kind, dp};
      const Compared compared = compare(run, {{DType::f32, 203}, {DType::bf16, 64}});
      CHECK(compared.wrong == 0);
      CHECK(compared.elements == (203 + 64) * ranks);
      const OrderOfSums order = order_of(run, {DType::f32, 203});
      CHECK(order.trees.node(order.tree_of(100)).summands == ranks * per_rank);
    }
  }
}

// Lanes of PEs and slices of TCM's size cut the tensor further; the sums of chunks stay.
TEST_CASE("large tensors on many PEs have the sums that their trees say", "[ccl][order]") {
  const Topology topology = round_topology(SipTopology::ring_1d, 4, 1, 2, 1);
  for (const char* name : {"ring_allreduce", "swing_allreduce", "packed_trees"}) {
    CAPTURE(name);
    for (const DPPolicy& dp : {DPPolicy{.cube = Shard::column_wise, .pe = Shard::column_wise},
                               DPPolicy{.cube = Shard::replicate, .pe = Shard::replicate}}) {
      const Run run{topology, algorithm_named(name), CollectiveKind::all_reduce, dp};
      CHECK(compare(run, {{DType::f32, 30'011}}).wrong == 0);
      CHECK(order_of(run, {DType::f32, 30'011}).ranges.size() > 3);
    }
  }
}

// No f32 element is divided before the sum, which is divided by 3.
TEST_CASE("an average is the printed tree's sum, divided", "[ccl][order]") {
  const Topology topology = round_topology(SipTopology::ring_1d, 3, 1);
  const Data data{DType::f32, 101};
  const Run run{
      topology, algorithm_named("ring_allreduce"), CollectiveKind::all_reduce, {}, ReduceOp::avg};
  const OrderOfSums order = order_of(run, data);
  const std::vector<float> averages = simulate(run, {data})[0][0];
  for (std::int64_t element = 0; element < data.count; ++element) {
    const float sum =
        PrintedTree(order.trees.text(order.tree_of(element)))
            .value(data.dtype, [&](const Leaf& leaf) { return drawn(leaf, element, data.dtype); });
    CHECK(averages[static_cast<std::size_t>(element)] == sum / 3);
  }
}

// The share of elements whose bits depend on the chunk that they are in, in percent.
double chunk_dependent(int ranks, DType dtype, std::int64_t count) {
  const Topology topology = round_topology(SipTopology::ring_1d, ranks, 1);
  const OrderOfSums order = order_of({topology, algorithm_named("ring_allreduce")}, {dtype, count});
  std::vector<PrintedTree> trees;
  for (const auto& sums : order.sums) trees.emplace_back(order.trees.text(sums.front()));
  CHECK(std::ssize(trees) == ranks);  // a tree for each chunk
  std::int64_t different = 0;
  for (std::int64_t element = 0; element < count; ++element) {
    std::vector<float> summands;
    for (int rank = 0; rank < ranks; ++rank) summands.push_back(drawn({rank}, element, dtype));
    std::set<float> sums;
    for (const PrintedTree& tree : trees) {
      sums.insert(tree.value(
          dtype, [&](const Leaf& leaf) { return summands[static_cast<std::size_t>(leaf.rank)]; }));
    }
    different += sums.size() > 1 ? 1 : 0;
  }
  return 100 * static_cast<double>(different) / static_cast<double>(count);
}

// The shares are those of 200,000 elements of another generator, within three standard deviations
// of a sample of 10,000.
TEST_CASE("68, 96 and 100 % of elements depend on their chunk in a ring of 4, 8 and 16",
          "[ccl][order]") {
  constexpr std::int64_t kCount = 10'000;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CAPTURE(name_of(dtype));
    CHECK(chunk_dependent(2, dtype, kCount) == 0);
    CHECK(chunk_dependent(4, dtype, kCount) == Approx(68.4).margin(1.5));
    CHECK(chunk_dependent(8, dtype, kCount) == Approx(96.0).margin(0.8));
    CHECK(chunk_dependent(16, dtype, kCount) == Approx(99.9).margin(0.2));
  }
}

TEST_CASE("a tree depends on the size where the plan has several", "[ccl][order]") {
  const Topology topology = round_topology(SipTopology::ring_1d, 4, 1);
  const auto order = [&](const char* name, std::int64_t count) {
    return order_of({topology, algorithm_named(name)}, {DType::f32, count});
  };
  const OrderOfSums ring = order("ring_allreduce", 100);
  CHECK(ring.sums_of_plan == 4);
  CHECK(ring.trees.text(ring.tree_of(0)) == "(((r1+r2)+r3)+r0)");
  CHECK(ring.trees.text(ring.tree_of(25)) == "(((r2+r3)+r0)+r1)");
  CHECK(ring.ranges.size() == 4);
  CHECK(ring.ranges[1].begin == 25);
  // The same element of twice the batch is in another chunk.
  const OrderOfSums twice = order("ring_allreduce", 200);
  CHECK(twice.trees.text(twice.tree_of(25)) == "(((r1+r2)+r3)+r0)");
  // One element: a call has one tree, which another size changes.
  CHECK(order("ring_allreduce", 1).sums_of_call == 1);
  CHECK(order("ring_allreduce", 1).sums_of_plan == 4);
  CHECK(order("doubling_allreduce", 9).trees.text(order("doubling_allreduce", 9).tree_of(5)) ==
        "((r3+r2)+(r1+r0))");
  // Up one tree, whatever the size.
  CHECK(order("tree_allreduce", 100).sums_of_plan == 1);
  CHECK(order("tree_allreduce", 100).ranges.size() == 1);
}

TEST_CASE("up a tree, along a chain, in pairs, straight and in order, all chunks have one tree",
          "[ccl][order]") {
  Topology topology = joined_topology(SipTopology::switched, 8);
  topology.system.network_switch.sums.emplace();
  std::set<std::string_view> names;
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce}) {
    for (const Algorithm& algorithm : ccl::library_algorithms()) {
      if (!can_run(algorithm, kind, topology)) continue;
      const OrderOfSums order = order_of({topology, algorithm, kind}, {DType::f32, 100});
      if (order.sums_of_plan == 1) names.insert(algorithm.name);
    }
  }
  CHECK(names == std::set<std::string_view>{"tree_allreduce", "switch_allreduce", "direct_in_order",
                                            "doubling_allreduce", "binomial", "chain",
                                            "direct"});
}

TEST_CASE("trees that differ in the order of two operands have the same bits", "[ccl][order]") {
  SumTrees trees;
  const auto a = trees.add_summand({0});
  const auto b = trees.add_summand({1});
  const auto c = trees.add_summand({2, 3, 4});
  const auto ab_c = trees.add(trees.add(a, b), c);
  const auto c_ba = trees.add(c, trees.add(b, a));
  const auto a_bc = trees.add(a, trees.add(b, c));
  CHECK(trees.text(ab_c) == "((r0+r1)+r2.cube3.pe4)");
  CHECK(trees.text(c_ba) == "(r2.cube3.pe4+(r1+r0))");
  CHECK(ab_c != c_ba);
  CHECK(trees.number_of_bits(ab_c) == trees.number_of_bits(c_ba));
  CHECK(trees.number_of_bits(ab_c) != trees.number_of_bits(a_bc));
  CHECK(trees.add(trees.add(a, b), c) == ab_c);
  CHECK(trees.node(a_bc).depth == 2);
  CHECK(trees.node(a_bc).summands == 3);
}

}  // namespace
}  // namespace kernbench::test::order_of_sums_test
