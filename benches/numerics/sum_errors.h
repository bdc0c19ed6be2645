// Errors of sums over ranks: against exact sums, and against the order in which they were added.

#pragma once

#include <cstdint>
#include <vector>

#include "ccl/backend/order_of_sums.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::benches::numerics {

// A sum of numbers, each of which is a float; within 2^-100 of the exact one, relative to the
// largest partial sum.
class ExactSum {
 public:
  void add(double number);

  double value() const { return sum_ + rest_; }
  // Returns how far a number is from the sum.
  double distance(double number) const;

 private:
  double sum_ = 0;
  double rest_ = 0;  // what rounding has taken from it
};

// The elements of each rank: its summands, or its sums.
using Elements = std::vector<std::vector<float>>;

struct SumErrors {
  double worst = 0;        // in u sum|x|, as the bound is
  double rms = 0;          // likewise
  double worst_ulp = 0;    // in units in the last place of the exact sum
  double rms_ulp = 0;      // likewise
  double varying = 0;      // the share of elements whose bits other elements' trees would change
  int depth = 0;           // the bound, in u sum|x|
  std::int64_t wrong = 0;  // elements that differ from what their tree gives, on any rank
};

// The errors alone: of sums whose order is not looked at.
SumErrors find_errors(DType dtype, const Elements& given, const std::vector<float>& sums);
SumErrors find_errors(const ccl::OrderOfSums& order, DType dtype, const Elements& given,
                      const Elements& sums);

}  // namespace kernbench::benches::numerics
