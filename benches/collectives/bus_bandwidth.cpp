#include "benches/collectives/bus_bandwidth.h"

#include <algorithm>

#include "sim_engine/base/check.h"

namespace kernbench::benches::collectives {

namespace {

using distributed::CollectiveKind;
using distributed::traits_of;

// In the order of MeasuredCollective; sendrecv and shift, which torch.distributed knows no name of,
// come behind.
constexpr std::array kKinds = {CollectiveKind::all_reduce,     CollectiveKind::all_gather,
                               CollectiveKind::reduce_scatter, CollectiveKind::broadcast,
                               CollectiveKind::reduce,         CollectiveKind::all_to_all,
                               CollectiveKind::gather,         CollectiveKind::scatter};

constexpr BusFactor kOne = {"1", 0};

constexpr CollectiveSpec make_spec(const distributed::CollectiveTraits& traits) {
  const bool has_root = traits.root != distributed::Root::none;
  BusFactor factor = kOne;
  if (traits.has_list()) factor = {"(P-1)/P", 1};
  if (traits.is_in_place() && !has_root) factor = {"2(P-1)/P", 2};
  return {.name = traits.name,
          .factor = factor,
          .counts_all_ranks = traits.has_list(),
          .reduces = traits.reduces,
          .has_root = has_root,
          .out_of_place = traits.has_list(),
          .in_place = !traits.has_lists()};
}

constexpr auto kSpecs = [] {
  std::array<CollectiveSpec, kKinds.size() + 2> specs{};
  std::ranges::transform(kKinds, specs.begin(),
                         [](CollectiveKind kind) { return make_spec(traits_of(kind)); });
  specs[kKinds.size()] = {.name = "sendrecv", .factor = kOne, .out_of_place = true};
  specs[kKinds.size() + 1] = {.name = "shift", .factor = kOne, .in_place = true};
  return specs;
}();

}  // namespace

double BusFactor::of(int ranks) const {
  return sends_per_rank == 0 ? 1 : static_cast<double>(sends_per_rank) * (ranks - 1) / ranks;
}

const CollectiveSpec& spec_of(MeasuredCollective collective) {
  return kSpecs.at(static_cast<std::size_t>(collective));
}

CollectiveKind to_collective_kind(MeasuredCollective collective) {
  const auto index = static_cast<std::size_t>(collective);
  return index < kKinds.size() ? kKinds[index] : CollectiveKind::all_to_all;
}

std::string_view name_of(MeasuredCollective collective) {
  return spec_of(collective).name;
}

MeasuredCollective find_collective(std::string_view function) {
  const auto found = std::ranges::find_if(kMeasuredCollectives, [&](MeasuredCollective collective) {
    return function.starts_with(name_of(collective));
  });
  KB_CHECK(found != kMeasuredCollectives.end(), "no collective is named '{}'", function);
  return *found;
}

double algbw_gbs(Bytes size, Time time) {
  return time > Time{0} ? static_cast<double>(size) / to_ns(time) : 0;
}

}  // namespace kernbench::benches::collectives
