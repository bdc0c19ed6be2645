#include "benches/bench/peak_flops.h"

namespace kernbench::benches {

std::optional<double> peak_flops(const Topology& topology, std::int64_t pes) {
  const GemmSpec& array = topology.pe.gemm;
  if (array.clock.is_unlimited()) return std::nullopt;
  return 2.0 * array.rows * array.columns * static_cast<double>(array.clock.per_second) *
         static_cast<double>(pes);
}

}  // namespace kernbench::benches
