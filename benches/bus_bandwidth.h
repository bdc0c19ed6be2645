// What nccl-tests states of each collective: what its size counts, and how bandwidths follow from a
// time (nccl-tests 2.19.6, doc/PERFORMANCE.md and src/*.cu).

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench::benches {

// Those that nccl-tests has a program for.  sendrecv is a ring: each rank sends to the next one and
// receives from the one before.
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
};
inline constexpr std::array kMeasuredCollectives = {
    MeasuredCollective::all_reduce,     MeasuredCollective::all_gather,
    MeasuredCollective::reduce_scatter, MeasuredCollective::broadcast,
    MeasuredCollective::reduce,         MeasuredCollective::all_to_all,
    MeasuredCollective::gather,         MeasuredCollective::scatter,
    MeasuredCollective::sendrecv};

// What busbw is algbw times of, for P ranks.  It is chosen so that busbw is the rate of the
// bottleneck wherever each rank has one link each way; it knows neither the algorithm nor the
// topology.
struct BusFactor {
  std::string_view form;   // "2(P-1)/P"
  int sends_per_rank = 0;  // numerator (P - 1) times of this, over P; 0: it is 1

  double of(int ranks) const;
};

struct CollectiveSpec {
  std::string_view name;
  BusFactor factor;
  // Whether the size is that of the blocks of all ranks together: P times count; else of one.
  bool counts_all_ranks = false;
  bool reduces = false;
  bool has_root = false;
  // Whether torch.distributed has it with an output beside the input, and with one in its place.
  bool out_of_place = false;
  bool in_place = false;

  int blocks_in_size(int ranks) const { return counts_all_ranks ? ranks : 1; }
};

const CollectiveSpec& spec_of(MeasuredCollective collective);
std::string_view name_of(MeasuredCollective collective);

// GB/s, of 10^9 bytes; 0 if it took no time.
double algbw_gbs(Bytes size, Time time);

}  // namespace kernbench::benches
