#include "test/ccl/group_under_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/torch/run_ranks.h"
#include "test/ccl/all_reduce_under_test.h"

namespace kernbench::test {

namespace {

// Returns the number of the summand that a holder has.
int summand_of(const DPPolicy& dp, const ShardInfo& shard) {
  return (dp.cube == Shard::partial ? shard.cube : 0) * 2 +
         (dp.pe == Shard::partial ? shard.pe : 0);
}

// Summands are numbered, and all but the first have their number in every element.  Returns the sum
// of those.
double sum_of_others(const Tensor& x) {
  std::set<int> numbers;
  for (const ShardInfo& shard : x.shards()) numbers.insert(summand_of(x.dp(), shard));
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

}  // namespace

double brought(int rank, std::int64_t position) {
  const auto hash = static_cast<std::uint64_t>(rank + 1) * 0x9e3779b97f4a7c15 ^
                    static_cast<std::uint64_t>(position + 1) * 0xbf58476d1ce4e5b9;
  constexpr std::array kNumbers = {1.0, 2.0, -1.0, 1.0, -2.0};
  return kNumbers[((hash >> 37) ^ (hash >> 11)) % kNumbers.size()];
}

Elements elements_of(int rank, std::int64_t count, std::int64_t first) {
  Elements elements;
  for (std::int64_t i = 0; i < count; ++i) elements.push_back(brought(rank, first + i));
  return elements;
}

Tensor make(RuntimeContext& torch, const Shape& shape, const TensorOptions& options,
            const Elements& elements) {
  Tensor x = torch.empty(shape, options);
  const double others = is_partial(x.dp()) ? sum_of_others(x) : 0;
  for (std::size_t i = 0; i < x.shards().size(); ++i) {
    const ShardInfo& shard = x.shards()[i];
    const int summand = summand_of(x.dp(), shard);
    std::vector<float> part;
    for (const std::int64_t position : positions_of(shard, shape)) {
      const double first = elements[static_cast<std::size_t>(position)] - others;
      part.push_back(static_cast<float>(summand > 0 ? summand : first));
    }
    x.copy_shard_(i, RuntimeContext::tensor(part, shard.shape));
  }
  return x;
}

std::string wrong(const Tensor& x, const Elements& expected) {
  if (is_partial(x.dp())) return fmt::format("is {} still", to_string(x.dp()));
  for (std::size_t i = 0; i < x.shards().size(); ++i) {
    const std::vector<float> have = x.shard_to_vector(i);
    const std::vector<std::int64_t> positions = positions_of(x.shards()[i], x.shape());
    for (std::size_t k = 0; k < positions.size(); ++k) {
      const double want = expected[static_cast<std::size_t>(positions[k])];
      if (have[k] == want) continue;
      return fmt::format("shard {} ({}): element {} is {}, not {}", i, to_string(x.dp()),
                         positions[k], have[k], want);
    }
  }
  return {};
}

const std::vector<DPPolicy>& placements() {
  static const std::vector<DPPolicy> kAll = {
      DPPolicy::on_one_pe(),
      {.cube = Shard::replicate, .pe = Shard::replicate},
      {.cube = Shard::row_wise, .pe = Shard::column_wise},
      {.cube = Shard::partial, .pe = Shard::replicate},
      {.cube = Shard::column_wise, .pe = Shard::replicate},
      {.cube = Shard::partial, .pe = Shard::row_wise},
      {.cube = Shard::column_wise, .pe = Shard::row_wise},
      {.cube = Shard::row_wise, .pe = Shard::partial},
      {.cube = Shard::row_wise, .pe = Shard::row_wise, .num_cubes = 1},
      {.cube = Shard::partial, .pe = Shard::partial},
  };
  return kAll;
}

std::vector<std::string> run_group(const Topology& topology, const std::vector<int>& ranks,
                                   const std::function<std::string(const Member&)>& program,
                                   RuntimeOptions options) {
  options.profile = true;
  RuntimeContext torch(topology, std::move(options));
  torch.distributed.init_process_group("ahbm");
  const int world_size = torch.distributed.get_world_size();
  std::vector<int> all(static_cast<std::size_t>(world_size));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::string> wrong;
  run_on_devices(torch, world_size, [&](int rank) {
    distributed::ProcessGroup group;
    if (ranks != all) group = torch.distributed.new_group(ranks, {.sort_ranks = false});
    const auto found = std::ranges::find(ranks, rank);
    if (found == ranks.end()) return;
    const std::string said =
        program({torch, group, static_cast<int>(found - ranks.begin()), ranks});
    if (!said.empty()) wrong.push_back(fmt::format("rank {}: {}", rank, said));
  });
  torch.distributed.destroy_process_group();
  for (const runtime::RankTime& time : torch.engine().profile().ranks) {
    if (time.total() != torch.engine().now()) {
      wrong.push_back(fmt::format("rank {}: its classes of time do not add up", time.rank));
    }
  }
  return wrong;
}

}  // namespace kernbench::test
