// One matrix product by tl.composite on one PE or many: timed, counted and checked.

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/torch/runtime_context.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::benches::gemm {

// Says how many PEs share the product: one, a cube's, a SIP's, or those of all SIPs.
enum class GemmOn : std::uint8_t { pe, cube, sip, all };
inline constexpr std::array kGemmOn = {GemmOn::pe, GemmOn::cube, GemmOn::sip, GemmOn::all};
std::string_view name_of(GemmOn on);

// How c is cut among SIPs, then cubes, then the PEs of each: row_wise or column_wise; nullopt:
// along the longer side of what is left.  A cut of c's rows cuts a's rows too, and a cut of c's
// columns cuts b's columns; the other operand is replicated (DPPolicy).
struct GemmPlacement {
  GemmOn on = GemmOn::pe;
  std::optional<Shard> sip = {};
  std::optional<Shard> cube = {};
  std::optional<Shard> pe = {};
  int pes = 0;  // the first PEs of each cube; 0: all
};

struct GemmInput {
  sim::GemmSize size;
  DType dtype = DType::f16;
  sim::GemmSize tile = {};  // 0: chosen automatically
  GemmPlacement placement = {};
  std::uint64_t seed = 0;

  DType dtype_of_c() const { return is_float8(dtype) ? DType::bf16 : dtype; }
};

// One PE's share of the product.
struct GemmShare {
  sim::PeLocation pe;
  sim::GemmSize size;
  sim::GemmSize tile = {};
  std::int64_t row = 0;  // of c
  std::int64_t column = 0;
  Bytes a = 0;  // addresses: of the first blocks of a and b on its SIP, and of its part of c
  Bytes b = 0;
  Bytes c = 0;
};

struct GemmRow {
  GemmInput input;
  Dataflow dataflow = Dataflow::output_stationary;
  std::string cut;              // "sip=row_wise, cube=column_wise"; "" on one PE
  int pes = 1;                  // that the placement allows; those of `shares` have work
  Time time{0};                 // from the first PE's start to the last PE's end
  Time window{0};               // the composite's, on the PE where it is longest
  std::int64_t gemm_count = 0;  // products of tiles in the op log, on all PEs
  sim::GemmSize tile;           // of the PE with the largest share
  Bytes hbm_loaded = 0;         // counted, on all PEs
  Bytes hbm_stored = 0;
  Time compute_bound{0};  // all products at the rate of all arrays
  Time estimate{0};       // by the recurrence over tiles that chooses them (estimate_time())
  Time start_spread{0};   // from the first PE's start to the last one's
  Time memory_bound{0};   // a, b and c over HBM, each once
  Time tcm_bound{0};      // each share as one product over the ports of PE_GEMM's TCM, the slowest
  std::optional<double> peak_tflops;  // nullopt: unlimited
  std::optional<double> hbm_gbs;      // of those PEs' slices; nullopt: unlimited
  std::optional<std::int64_t> wrong;  // elements; nullopt: not computed
  std::vector<GemmShare> shares;      // of PEs that have work

  double flops() const;
  double tflops() const;  // 0 if nothing takes time
  std::optional<double> utilization() const;
  Bytes hbm_bytes() const { return hbm_loaded + hbm_stored; }
  Time roofline() const { return std::max({compute_bound, memory_bound, tcm_bound}); }
  std::string_view bound() const;  // compute, memory or tcm: the first that takes longest
};

// Runs the product once.  If the context has no data, it is only timed.  Each run needs a context
// of its own, since the op log is counted from its begin.  Throws DeviceError KB-M010 if the
// operands do not fit the HBM of their PEs, and what tl.composite throws.
GemmRow run_gemm(RuntimeContext& torch, const GemmInput& input);

}  // namespace kernbench::benches::gemm
