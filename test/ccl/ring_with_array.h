#pragma once

#include "runtime/tl/tl.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

// A kernel: a GEMM of [n, n] matrices on values that are already in scratch.
inline void multiply(tl::Context& tl, tl::Pointer, std::int64_t n) {
  const tl::Tensor a = tl.zeros({n, n}, DType::f32);
  tl.dot(a, a);
}

// The array's time for it: 16 x 16, output stationary, 1 ns a cycle.
inline Time time_of_product(std::int64_t n) {
  const std::int64_t folds = (n / 16) * (n / 16);
  return Time{1000 * folds * (n + 16 + 16 - 2)};
}

// A ring whose only overhead is that of its links, with an array that multiplies.
inline Topology ring_with_array(int p) {
  Topology topology = link_topology(SipTopology::ring_1d, p);
  topology.pe.gemm = {.rows = 16, .columns = 16, .clock = Frequency{1'000'000'000}};
  return topology;
}

}  // namespace kernbench::test
