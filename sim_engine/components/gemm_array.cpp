#include "sim_engine/components/gemm_array.h"

#include <limits>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/units.h"

namespace kernbench::sim {

namespace {

struct Folds {
  std::int64_t down;    // folds along the array's rows
  std::int64_t across;  // folds along its columns
  std::int64_t steps;   // T of each fold
  std::int64_t fill;    // further cycles of each fold: skew and loading
};

Folds folds_of(const GemmSpec& array, const GemmSize& size) {
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

std::optional<GemmArrayUse> gemm_array_use(const GemmSpec& array, const GemmSize& size) {
  KB_CHECK(array.rows >= 1 && array.columns >= 1, "an array of {} x {}", array.rows, array.columns);
  KB_CHECK(size.m >= 0 && size.n >= 0 && size.k >= 0, "a GEMM of [{}, {}] and [{}, {}]", size.m,
           size.k, size.k, size.n);
  if (size.m == 0 || size.n == 0 || size.k == 0) return GemmArrayUse{};
  constexpr UnsignedWide kMost = std::numeric_limits<std::int64_t>::max();
  const Folds cut = folds_of(array, size);
  const UnsignedWide folds =
      static_cast<UnsignedWide>(cut.down) * static_cast<UnsignedWide>(cut.across);
  const UnsignedWide each =
      static_cast<UnsignedWide>(cut.steps) + static_cast<UnsignedWide>(cut.fill);
  if (folds > kMost / each) return std::nullopt;
  return GemmArrayUse{static_cast<std::int64_t>(folds), static_cast<std::int64_t>(folds * each)};
}

double gemm_utilization(const GemmSpec& array, const GemmSize& size, const GemmArrayUse& use) {
  if (use.cycles == 0) return 0;
  const double products =
      static_cast<double>(size.m) * static_cast<double>(size.n) * static_cast<double>(size.k);
  return products / (static_cast<double>(use.cycles) * array.rows * array.columns);
}

}  // namespace kernbench::sim
