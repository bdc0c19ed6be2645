// Attention over a sequence that ranks share, and what it took.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/train/used_pes.h"
#include "runtime/context_parallel/context_parallel.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::context {

// A method moves keys from rank to rank, gathers all keys on all ranks, or exchanges heads for
// tokens.
enum class Method : std::uint8_t { alltoall, allgather, ulysses };
inline constexpr std::array kMethods = {Method::alltoall, Method::allgather, Method::ulysses};
std::string_view name_of(Method method);

struct ContextInput {
  Method method = Method::alltoall;
  experimental::TokenOrder order = experimental::TokenOrder::head_tail;
  int ranks = 1;
  std::int64_t seq = 1;  // tokens of all ranks
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t depth = 1;
  bool is_causal = true;
  bool has_backward = false;
  DType dtype = DType::bf16;
  train::UsedPes on = {};

  std::int64_t tokens() const { return seq / ranks; }
};

struct MeasuredRank {
  Time computing{0};  // kernels ran
  Time exposed{0};    // messages or collectives were under way, and no kernel ran
  Bytes peak = 0;     // beyond what it held before
};

struct MeasuredContext {
  Time time{0};          // from when all ranks begin to the last one's end
  Bytes link_bytes = 0;  // on links between SIPs, over all of them
  std::vector<MeasuredRank> ranks;
};

MeasuredContext measure_context(PointContext& point, const ContextInput& input);

// The time of all tokens on one device without faults, on as many PEs as a rank has.  It is no
// system of the run, whose traces and explanations are of ranks.
Time time_of_one_rank(const PointContext& point, ContextInput input);

}  // namespace kernbench::benches::context
