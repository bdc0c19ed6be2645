#include "runtime/distributed/collective.h"

#include <array>
#include <bit>

#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/environment.h"
#include "sim_engine/values/element_format.h"

namespace kernbench {

std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, 9> kNames = {"SUM",  "AVG", "PRODUCT", "MIN",       "MAX",
                                                      "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
  return name_in(kNames, op);
}

std::string_view name_of(Reproducible level) {
  constexpr std::array<std::string_view, 4> kNames = {"run", "batch", "pairs", "ranks"};
  return name_in(kNames, level);
}

AverageDivisors AverageDivisors::of(DType dtype, int rank_count) {
  const auto before = dtype == DType::f16 ? std::bit_ceil(static_cast<unsigned>(rank_count)) : 1U;
  return {static_cast<double>(before), static_cast<double>(rank_count) / before};
}

bool AverageDivisors::is_after_exact_in(DType dtype) const {
  return sim::round_to(dtype, after) == static_cast<float>(after);
}

namespace distributed {

Reproducible least_reproducible_by_environment() {
  if (find_switch("KERNBENCH_RANK_INVARIANT").value_or(false)) return Reproducible::ranks;
  if (find_switch("KERNBENCH_WORLD_INVARIANT").value_or(false)) return Reproducible::pairs;
  const bool is_invariant = find_switch("KERNBENCH_BATCH_INVARIANT").value_or(false);
  return is_invariant ? Reproducible::batch : Reproducible::run;
}

sim::MathOp to_math_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::product:
      return sim::MathOp::multiply;
    case ReduceOp::min:
      return sim::MathOp::minimum;
    case ReduceOp::max:
      return sim::MathOp::maximum;
    case ReduceOp::band:
      return sim::MathOp::bit_and;
    case ReduceOp::bor:
      return sim::MathOp::bit_or;
    case ReduceOp::bxor:
      return sim::MathOp::bit_xor;
    default:
      return sim::MathOp::add;
  }
}

}  // namespace distributed
}  // namespace kernbench
