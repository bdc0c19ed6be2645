// The functions of a training step by themselves, each beside the roofline of the PEs that share
// it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "benches/train/used_pes.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::kernels {

// The shape and the placement of a function's operands [rows, columns].
struct KernelInput {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  DType dtype = DType::bf16;
  train::UsedPes on;

  std::int64_t elements() const { return rows * columns; }
  Bytes bytes() const { return elements() * size_of(dtype); }
  Shape shape() const { return {rows, columns}; }
};

// The least work of a pass: bytes that cross HBM once, and operations of PE_GEMM.
struct LeastWork {
  double bytes = 0;
  double flops = 0;
};

struct Pass {
  std::string_view name;  // forward, backward, step
  std::function<void()> run;
  LeastWork least;
};

struct KernelCase {
  std::string_view name;
  // Makes the operands, and returns the passes in the order in which they run.
  std::vector<Pass> (*prepare)(RuntimeContext& torch, const KernelInput& input);
};

// All functions.
const std::vector<KernelCase>& kernel_cases();

// The kernels of a pass, each from its first PE's start to its last PE's end, added up: launches
// and what a kernel waits for another one do not count.
struct MeasuredPass {
  std::int64_t kernels = 0;
  Time time{0};
  Time memory_bound{0};
  Time compute_bound{0};
  Bytes hbm_bytes = 0;  // counted

  Time roofline() const { return std::max(memory_bound, compute_bound); }
};
MeasuredPass measure(RuntimeContext& torch, const Pass& pass, const KernelInput& input);

}  // namespace kernbench::benches::kernels
