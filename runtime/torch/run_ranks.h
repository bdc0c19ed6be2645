// Programs of several ranks, of benches and of tests.

#pragma once

#include "runtime/torch/runtime_context.h"

namespace kernbench {

// Runs `worker(rank)` on ranks 0 to count - 1, and returns what spawn() does when all have ended.
template <class Worker>
auto run_ranks(RuntimeContext& torch, int count, const Worker& worker) {
  return torch.multiprocessing.spawn(worker, {}, count);
}

// Runs each rank on its own device.
template <class Worker>
auto run_on_devices(RuntimeContext& torch, int count, const Worker& worker) {
  return run_ranks(torch, count, [&](int rank) {
    torch.ahbm.set_device(rank);
    return worker(rank);
  });
}

}  // namespace kernbench
