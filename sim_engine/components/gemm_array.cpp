#include "sim_engine/components/gemm_array.h"

#include <algorithm>
#include <limits>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"

namespace kernbench::sim {

namespace {

struct Folds {
  std::int64_t down;    // folds along the array's rows
  std::int64_t across;  // folds along its columns
  std::int64_t steps;   // T of each fold
  std::int64_t fill;    // further cycles of each fold: skew and loading
};

Folds compute_folds(const GemmSpec& array, GemmSize size, Bytes element) {
  size.k = ceil_divide(size.k, products_per_cell(array, element));
  const std::int64_t skew = std::int64_t{array.rows} + array.columns - 2;
  switch (array.dataflow) {
    case Dataflow::output_stationary:
      return {ceil_divide(size.m, array.rows), ceil_divide(size.n, array.columns), size.k, skew};
    case Dataflow::weight_stationary:
      return {ceil_divide(size.k, array.rows), ceil_divide(size.n, array.columns), size.m,
              skew + array.rows};
    case Dataflow::input_stationary:
      break;
  }
  return {ceil_divide(size.k, array.rows), ceil_divide(size.m, array.columns), size.n,
          skew + array.rows};
}

}  // namespace

std::optional<GemmArrayUse> gemm_array_use(const GemmSpec& array, const GemmSize& size,
                                           Bytes element) {
  KB_CHECK(array.rows >= 1 && array.columns >= 1, "an array of {} x {}", array.rows, array.columns);
  KB_CHECK(size.m >= 0 && size.n >= 0 && size.k >= 0, "a GEMM of [{}, {}] and [{}, {}]", size.m,
           size.k, size.k, size.n);
  if (size.m == 0 || size.n == 0 || size.k == 0) return GemmArrayUse{};
  constexpr UnsignedWide kMost = std::numeric_limits<std::int64_t>::max();
  const Folds cut = compute_folds(array, size, element);
  const UnsignedWide folds =
      static_cast<UnsignedWide>(cut.down) * static_cast<UnsignedWide>(cut.across);
  const UnsignedWide alone =
      static_cast<UnsignedWide>(cut.steps) + static_cast<UnsignedWide>(cut.fill);
  const UnsignedWide period =
      array.overlap ? static_cast<UnsignedWide>(std::max<std::int64_t>(cut.steps, array.rows))
                    : alone;
  if (alone > kMost || (folds - 1) > (kMost - alone) / period) return std::nullopt;
  return GemmArrayUse{static_cast<std::int64_t>(folds),
                      static_cast<std::int64_t>((folds - 1) * period + alone)};
}

ComputeTraffic gemm_traffic(const GemmSpec& array, const GemmSize& size,
                            const GemmOperands& operands) {
  const Bytes a = size.m * size.k * operands.of_a;
  const Bytes b = size.k * size.n * operands.of_b;
  const Bytes c = size.m * size.n * operands.of_c;
  if (a == 0 || b == 0 || c == 0) return {};
  const Folds cut = compute_folds(array, size, std::max(operands.of_a, operands.of_b));
  if (array.dataflow == Dataflow::output_stationary) {
    return {a * cut.across + b * cut.down + operands.added_to, c};
  }
  const Bytes sums = (cut.down - 1) * size.m * size.n * size_of(DType::f32);
  const bool a_streams = array.dataflow == Dataflow::weight_stationary;
  const Bytes streams = (a_streams ? a : b) * cut.across;
  return {(a_streams ? b : a) + streams + sums + operands.added_to, sums + c};
}

double gemm_utilization(const GemmSpec& array, const GemmSize& size, const GemmArrayUse& use) {
  if (use.cycles == 0) return 0;
  const double products =
      static_cast<double>(size.m) * static_cast<double>(size.n) * static_cast<double>(size.k);
  return products / (static_cast<double>(use.cycles) * array.rows * array.columns);
}

}  // namespace kernbench::sim
