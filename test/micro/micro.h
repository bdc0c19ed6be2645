// Helpers of the micro-benchmarks.

#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <ctime>

namespace kernbench::micro {

// Wall seconds of a call.
template <class Action>
double measure_seconds(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// CPU seconds of this process.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Measures what a benchmark does per second of CPU time, beside a limit.  Create it before the
// loop.
class RateMeter {
 public:
  // Sets the counters for `count` things in all.  The ratio to the limit should be at least 1.
  void report(benchmark::State& state, double count, double limit_per_s) const {
    const double rate = count / (cpu_seconds() - start_);
    state.counters["M_per_s"] = rate / 1e6;
    state.counters["ratio_to_limit"] = rate / limit_per_s;
  }

 private:
  double start_ = cpu_seconds();
};

void print_fiber_switch_table();

}  // namespace kernbench::micro
