// A layer of experts on several ranks, and what it took.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/train/used_pes.h"
#include "runtime/expert_parallel/expert_parallel.h"
#include "runtime/expert_parallel/routing_load.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::moe {

using kernbench::moe::DropPolicy;
using kernbench::moe::RoutingLoad;
using kernbench::moe::RoutingReader;

struct MoeInput {
  RoutingLoad load = RoutingLoad::parse("W0");
  int ranks = 1;
  std::int64_t tokens = 1;  // of a rank
  std::int64_t hidden = 1;
  std::int64_t ffn = 1;
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  std::int64_t shared = 0;
  std::optional<double> capacity_factor = {};
  bool pad = false;
  DropPolicy policy = DropPolicy::probs;
  RoutingReader reader = RoutingReader::host;
  bool is_gated = true;
  bool has_backward = false;
  DType dtype = DType::bf16;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  train::UsedPes on = {};

  kernbench::moe::LoadShape load_shape() const {
    return {ranks, experts, top_k, tokens, seed, step};
  }
  // The products of a row with its expert, in FLOP, forward.
  double flops_of_row() const {
    return 2.0 * static_cast<double>(hidden) * static_cast<double>(ffn) * (is_gated ? 3 : 2);
  }
};

// A stretch of time.
struct Phase {
  Time begin{0};
  Time end{0};

  Time length() const { return end - begin; }
};

struct MoeRank {
  Phase dispatch;
  Phase experts;
  Phase combine;
  kernbench::moe::ExchangeSizes sizes;
  std::int64_t rows = 0;  // that its experts got
};

struct MeasuredMoe {
  Time time{0};          // from when all ranks begin to the last one's end, with backward
  Bytes link_bytes = 0;  // on links between SIPs, over all of them
  std::vector<MoeRank> ranks;

  // From when the first rank begins to dispatch until the last has its rows; from when the last
  // one's experts are done to the last one's end of combining.
  Time dispatch() const;
  Time combine() const;
  Time experts() const;     // the longest rank's
  Time host_reads() const;  // likewise; a part of dispatch
};

MeasuredMoe measure_moe(PointContext& point, const MoeInput& input);

}  // namespace kernbench::benches::moe
