// The order of sums that a plan and a cut tell is the one that a simulation adds in: an evaluator
// of its own computes the printed trees, and gets the simulated bits.

#include "ccl/backend/order_of_sums.h"

#include <fmt/format.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <numeric>
#include <set>
#include <string>

#include "runtime/torch/run_ranks.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::order_of_sums_test {
namespace {

using ccl::Algorithm;
using ccl::OrderOfSums;
using ccl::SumTrees;
using distributed::CollectiveKind;

constexpr std::array kKinds = {CollectiveKind::all_reduce, CollectiveKind::reduce,
                               CollectiveKind::reduce_scatter};

// The evaluator, which knows nothing of the product's trees but their text.

// Rounds to the nearest number of the type, ties to even.
float rounded(float number, DType dtype) {
  if (dtype == DType::f32) return number;
  const auto bits = std::bit_cast<std::uint32_t>(number);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);  // bf16
}

struct Leaf {
  int rank = 0;
  int cube = 0;
  int pe = 0;
};

// A printed tree in postfix form: a leaf, or nullopt for an addition of the two results before.
class PrintedTree {
 public:
  explicit PrintedTree(const std::string& text) : rest_(text) {
    read();
    demand(rest_.empty());
  }

  template <class ValueOf>
  float value(DType dtype, const ValueOf& value_of) const {
    std::vector<float> stack;
    for (const std::optional<Leaf>& leaf : postfix_) {
      if (leaf) {
        stack.push_back(value_of(*leaf));
        continue;
      }
      const float right = stack.back();
      stack.pop_back();
      stack.back() = rounded(stack.back() + right, dtype);
    }
    return stack.front();
  }

 private:
  void read() {
    if (!takes("(")) return read_leaf();
    read();
    demand(takes("+"));
    read();
    demand(takes(")"));
    postfix_.emplace_back();
  }
  void read_leaf() {
    Leaf leaf;
    demand(takes("r"));
    leaf.rank = number();
    if (takes(".cube")) leaf.cube = number();
    if (takes(".pe")) leaf.pe = number();
    postfix_.emplace_back(leaf);
  }
  int number() {
    std::size_t digits = 0;
    const int number = std::stoi(std::string(rest_), &digits);
    rest_.remove_prefix(digits);
    return number;
  }
  void demand(bool is_so) const {
    if (!is_so) FAIL("no tree goes on with '" << rest_ << "'");
  }
  bool takes(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string_view rest_;
  std::vector<std::optional<Leaf>> postfix_;
};

// In (0, 1), other for each number.
double uniform(std::uint64_t number) {
  number = (number + 1) * 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return (static_cast<double>((number ^ (number >> 31)) >> 11) + 0.5) * 0x1p-53;
}

// Normally distributed (Box and Muller), and a number of the type.
float drawn(const Leaf& leaf, std::int64_t position, DType dtype) {
  const auto summand = static_cast<std::uint64_t>((leaf.rank * 64 + leaf.cube) * 64 + leaf.pe);
  const std::uint64_t number = (summand << 32 | static_cast<std::uint64_t>(position)) * 2;
  const double radius = std::sqrt(-2 * std::log(uniform(number)));
  const double angle = 2 * std::numbers::pi * uniform(number + 1);
  return rounded(static_cast<float>(radius * std::cos(angle)), dtype);
}

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
  return describe_misfit(algorithm, shape_of_sips(topology, sips)).empty();
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
  CHECK(algorithms.size() == 16);
}

}  // namespace
}  // namespace kernbench::test::order_of_sums_test
