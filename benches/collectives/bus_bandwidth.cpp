#include "benches/collectives/bus_bandwidth.h"

namespace kernbench::benches::collectives {

namespace {

constexpr BusFactor kAllReduce = {"2(P-1)/P", 2};
constexpr BusFactor kOthersBlocks = {"(P-1)/P", 1};
constexpr BusFactor kOne = {"1", 0};

// The rows are in the order of MeasuredCollective.
constexpr std::array<CollectiveSpec, kMeasuredCollectives.size() + 1> kSpecs = {{
    {.name = "all_reduce", .factor = kAllReduce, .reduces = true, .in_place = true},
    {.name = "all_gather",
     .factor = kOthersBlocks,
     .counts_all_ranks = true,
     .out_of_place = true,
     .in_place = true},
    {.name = "reduce_scatter",
     .factor = kOthersBlocks,
     .counts_all_ranks = true,
     .reduces = true,
     .out_of_place = true,
     .in_place = true},
    {.name = "broadcast", .factor = kOne, .has_root = true, .in_place = true},
    {.name = "reduce", .factor = kOne, .reduces = true, .has_root = true, .in_place = true},
    {.name = "all_to_all", .factor = kOthersBlocks, .counts_all_ranks = true, .out_of_place = true},
    {.name = "gather",
     .factor = kOthersBlocks,
     .counts_all_ranks = true,
     .has_root = true,
     .out_of_place = true,
     .in_place = true},
    {.name = "scatter",
     .factor = kOthersBlocks,
     .counts_all_ranks = true,
     .has_root = true,
     .out_of_place = true,
     .in_place = true},
    {.name = "sendrecv", .factor = kOne, .out_of_place = true},
    {.name = "shift", .factor = kOne, .in_place = true},
}};

}  // namespace

double BusFactor::of(int ranks) const {
  return sends_per_rank == 0 ? 1 : static_cast<double>(sends_per_rank) * (ranks - 1) / ranks;
}

const CollectiveSpec& spec_of(MeasuredCollective collective) {
  return kSpecs.at(static_cast<std::size_t>(collective));
}

std::string_view name_of(MeasuredCollective collective) {
  return spec_of(collective).name;
}

double algbw_gbs(Bytes size, Time time) {
  return time > Time{0} ? static_cast<double>(size) / to_ns(time) : 0;
}

}  // namespace kernbench::benches::collectives
