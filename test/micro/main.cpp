// Runs all micro-benchmarks, or those that --benchmark_filter names.

#include <xmmintrin.h>

#include "ccl/backend/ahbm_backend.h"
#include "runtime/distributed/local_backend.h"
#include "test/micro/micro.h"

int main(int argc, char** argv) {
  // Sets all floating-point exception flags, like FiberScheduler; otherwise a raw switch costs ten
  // times as much after the first inexact sum.
  _mm_setcsr(_mm_getcsr() | _MM_EXCEPT_MASK);
  kernbench::ccl::register_ahbm_backend();
  kernbench::distributed::register_local_backend();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const bool ran_all = argc == 1 && benchmark::GetBenchmarkFilter().empty();
  benchmark::RunSpecifiedBenchmarks();
  if (ran_all) kernbench::micro::print_fiber_switch_table();
  return 0;
}
