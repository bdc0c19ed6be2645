#include <array>

#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

std::string_view name_of(AxisOp op) {
  static constexpr std::array<std::string_view, kAxisOpCount> kNames = {
      "sum", "maximum", "minimum", "softmax", "broadcast", "transpose", "ramp"};
  return kNames[static_cast<std::size_t>(op)];
}

std::string_view name_of(Activation activation) {
  static constexpr std::array<std::string_view, kActivations.size()> kNames = {
      "none", "relu", "sigmoid", "silu", "gelu"};
  return kNames[static_cast<std::size_t>(activation)];
}

}  // namespace kernbench::sim
