// nccl-tests' conventions for each collective: what its size counts, and how bandwidths follow from
// a time (nccl-tests 2.19.6, doc/PERFORMANCE.md and src/*.cu).

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "runtime/distributed/options.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::collectives {

// The collectives that nccl-tests has a program for.  sendrecv is a ring: each rank sends to the
// next rank and receives from the previous one.  `shift` is the same by an algorithm of ccl.yaml,
// in the order of its ring; torch.distributed has no such collective, and nccl-tests no program.
enum class MeasuredCollective : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  sendrecv,
  shift,
};
// The collectives that nccl-tests measures.
inline constexpr std::array kMeasuredCollectives = {
    MeasuredCollective::all_reduce,     MeasuredCollective::all_gather,
    MeasuredCollective::reduce_scatter, MeasuredCollective::broadcast,
    MeasuredCollective::reduce,         MeasuredCollective::all_to_all,
    MeasuredCollective::gather,         MeasuredCollective::scatter,
    MeasuredCollective::sendrecv};

// The factor by which busbw = factor * algbw, for P ranks.  It is chosen so that busbw is the rate
// of the bottleneck if each rank has one link each way; it depends on neither the algorithm nor the
// topology.
struct BusFactor {
  std::string_view form;   // "2(P-1)/P"
  int sends_per_rank = 0;  // the factor is this times (P - 1) / P; 0: it is 1

  double of(int ranks) const;
};

struct CollectiveSpec {
  std::string_view name;
  BusFactor factor = {};
  // True if the size counts the blocks of all ranks (P times count), false if it counts one block.
  bool counts_all_ranks = false;
  bool reduces = false;
  bool has_root = false;
  // True if torch.distributed supports the collective out of place, and in place.
  bool out_of_place = false;
  bool in_place = false;

  int blocks_in_size(int ranks) const { return counts_all_ranks ? ranks : 1; }
};

const CollectiveSpec& spec_of(MeasuredCollective collective);
std::string_view name_of(MeasuredCollective collective);
// Returns the collective of a function of torch.distributed, such as all_gather_into_tensor.
// REQUIRES: there is one
MeasuredCollective find_collective(std::string_view function);

// The collective that torch.distributed runs for it: of sendrecv and shift an all_to_all, in which
// a rank has a block for the next rank alone.
distributed::CollectiveKind to_collective_kind(MeasuredCollective collective);

// The algorithm bandwidth in GB/s (10^9 bytes); 0 if `time` is 0.
double algbw_gbs(Bytes size, Time time);

}  // namespace kernbench::benches::collectives
