#include "benches/calibration/fit_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <numeric>

#include "benches/bench/console.h"
#include "benches/bench/head_and_foot.h"

namespace kernbench::benches::calibration {

namespace {

constexpr double kSecondsBetween = 10;

}  // namespace

void FitProgress::tell(const Numbers& residuals, std::size_t simulated) {
  const double now = clock_();
  if (!is_shown_ || now - told_ < kSecondsBetween) return;
  told_ = now;
  const double sum = std::inner_product(residuals.begin(), residuals.end(), residuals.begin(), 0.0);
  const double error = 100 * std::sqrt(sum / static_cast<double>(residuals.size()));
  Console(STDERR_FILENO)
      .print(fmt::format(
          "kernbench: fit: {} rows simulated, errors of {:.1f} % (root of the mean square)\n",
          with_commas(simulated), error));
}

}  // namespace kernbench::benches::calibration
