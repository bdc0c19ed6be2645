#include "benches/train/used_pes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/components/routing.h"

namespace kernbench::benches::train {

UsedPes read_pes(const Settings& settings, const Topology& topology, std::int64_t tokens) {
  const auto given = [&](std::string_view key, int all) -> std::optional<std::int64_t> {
    if (settings.text(key).empty()) return std::nullopt;
    return settings.integer(key, 1, all);
  };
  const auto most = [](std::int64_t wanted, int all) {
    return std::clamp<std::int64_t>(wanted, 1, all);
  };
  const std::int64_t filled = sim::ceil_divide(tokens, topology.pe.gemm.rows);
  const std::optional<std::int64_t> given_cubes = given("cubes", topology.cube_count());
  const std::optional<std::int64_t> given_pes = given("pes", topology.pe_count());
  // Each cube has a PE before one has two, since weights come from the HBM of the cubes that are
  // used.
  const std::int64_t cubes = given_cubes.value_or(
      most(sim::ceil_divide(filled, given_pes.value_or(1)), topology.cube_count()));
  const std::int64_t pes =
      given_pes.value_or(most(sim::ceil_divide(filled, cubes), topology.pe_count()));
  return {static_cast<int>(cubes), static_cast<int>(pes)};
}

std::string describe(const UsedPes& used, const Topology& topology) {
  const int all = topology.cube_count() * topology.pe_count();
  if (used.count() == all) return fmt::format("all {} PEs of a SIP", all);
  const auto times = [](int whole, int part) {
    const double factor = static_cast<double>(whole) / part;
    return fmt::format("{:.{}f}", factor, factor == std::floor(factor) ? 0 : 1);
  };
  const int slices = sim::Routing::hbm_slice_count(topology);
  const int used_slices = sim::Routing::count_hbm_slices(topology, used.pes);
  return fmt::format("{} of the {} PEs of a SIP: links {} and HBM {} times too generous",
                     used.count(), all, times(all, used.count()),
                     times(topology.pe_count() * used_slices, used.pes * slices));
}

}  // namespace kernbench::benches::train
