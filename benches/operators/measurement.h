// The time of a provider, beside the limit set by HBM.

#pragma once

#include <array>

#include "benches/bench/bench.h"
#include "benches/operators/operator_run.h"
#include "runtime/profiler/energy.h"

namespace kernbench::benches::operators {

struct Measured {
  Time time{0};        // from the call to its return, on the host: launches included
  Time in_kernels{0};  // of that, the time in which kernels ran
  Time roofline{0};    // least_bytes() over the bandwidth of HBM of the PEs with tokens
  int kernels = 0;
  Bytes bytes = 0;  // from and to HBM
  runtime::EnergyUse energy = {};

  double share_of_roofline() const;  // not finite if nothing takes time
};

// The time in microseconds, exact except for the last bit.
inline double microseconds(Time time) {
  return static_cast<double>(time.count()) / 1e6;
}

using MeasuredBoth = std::array<Measured, kDirections.size()>;  // by direction

// Runs forward and backward once, on a context of its own, since simulated time does not vary.
MeasuredBoth measure(RuntimeContext& torch, const Definition& definition,
                     const ProviderInfo& provider);

}  // namespace kernbench::benches::operators
