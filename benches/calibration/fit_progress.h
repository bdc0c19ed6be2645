// Tells people on stderr, now and then, how far a long fit is.

#pragma once

#include <cstddef>

#include "benches/bench/progress.h"
#include "benches/calibration/least_squares.h"

namespace kernbench::benches::calibration {

class FitProgress {
 public:
  explicit FitProgress(bool is_shown) : is_shown_(is_shown) {}

  // Call it after each step.
  void tell(const Numbers& residuals, std::size_t simulated);

 private:
  const bool is_shown_;
  const Progress::Clock clock_ = Progress::wall_clock();
  double told_ = clock_();  // when
};

}  // namespace kernbench::benches::calibration
