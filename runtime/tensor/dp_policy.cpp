#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/tensor/tensor_options.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

constexpr std::size_t kShardCount = 4;

struct Part {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> sizes;
};

// Returns the share of `whole` that holder `index` of `count` gets.
Part cut_share(const Part& whole, Shard shard, int index, int count) {
  Part part = whole;
  if (!is_sharded(shard) || whole.sizes.empty()) return part;
  const std::size_t dimension = shard == Shard::row_wise ? 0 : whole.sizes.size() - 1;
  const std::int64_t size = whole.sizes[dimension];
  const std::int64_t chunk = sim::ceil_divide(size, count);
  const std::int64_t first = std::min(chunk * index, size);
  part.offset[dimension] += first;
  part.sizes[dimension] = std::min(chunk, size - first);
  return part;
}

void check_shard(std::string_view level, Shard shard) {
  if (is_enumerator(shard, kShardCount)) return;
  throw DeviceError(
      "KB-K010",
      "DPPolicy: {} = {} is no Shard; there are: replicate, row_wise, column_wise, partial", level,
      number_of(shard));
}

int resolve_count(int wanted, int available, std::string_view what) {
  if (wanted < 0) {
    throw DeviceError("KB-K010", "DPPolicy: num_{} = {} must not be negative", what, wanted);
  }
  if (wanted > available) {
    throw DeviceError("KB-K010", "DPPolicy: num_{} = {} exceeds the {} {} there are", what, wanted,
                      available, what);
  }
  return wanted == 0 ? available : wanted;
}

}  // namespace

std::string_view name_of(Shard shard) {
  constexpr std::array<std::string_view, 4> kNames = {"replicate", "row_wise", "column_wise",
                                                      "partial"};
  return name_in(kNames, shard);
}

std::string to_string(const DPPolicy& policy) {
  std::string text = fmt::format("cube={}, pe={}", name_of(policy.cube), name_of(policy.pe));
  if (policy.num_cubes != 0) text += fmt::format(", num_cubes={}", policy.num_cubes);
  if (policy.num_pes != 0) text += fmt::format(", num_pes={}", policy.num_pes);
  if (policy.is_shared) text += ", is_shared";
  return text;
}

std::vector<ShardInfo> place(const DPPolicy& policy, const Shape& shape, const Topology& topology,
                             int sip, int num_sips) {
  check_shard("cube", policy.cube);
  check_shard("pe", policy.pe);
  const int sips = resolve_count(num_sips, topology.system.sip_count - sip, "sips");
  const int cubes = resolve_count(policy.num_cubes, topology.cube_count(), "cubes");
  const int pes = resolve_count(policy.num_pes, topology.pe_count(), "pes");
  const Part whole{std::vector<std::int64_t>(shape.rank(), 0), {shape.begin(), shape.end()}};
  std::vector<ShardInfo> shards;
  for (int i = 0; i < sips; ++i) {
    const Part of_sip = cut_share(whole, Shard::column_wise, i, sips);
    for (int cube = 0; cube < cubes; ++cube) {
      const Part of_cube = cut_share(of_sip, policy.cube, cube, cubes);
      for (int pe = 0; pe < pes; ++pe) {
        Part part = cut_share(of_cube, policy.pe, pe, pes);
        shards.push_back({sip + i, cube, pe, std::move(part.offset), Shape(part.sizes), 0});
      }
    }
  }
  return shards;
}

int DPPolicy::cube_holders(const Topology& topology) const {
  return num_cubes == 0 ? topology.cube_count() : num_cubes;
}

int DPPolicy::pe_holders(const Topology& topology) const {
  return num_pes == 0 ? topology.pe_count() : num_pes;
}

}  // namespace kernbench
