// Points of the all_reduce evaluation, simulated one by one.

#pragma once

#include "benches/evaluation/ccl_evaluation.h"
#include "sim_engine/components/kernel_run.h"
#include "test/benches/bench_under_test.h"

namespace kernbench::test {

inline benches::Row simulate_point(const benches::evaluation::CclPoint& wanted) {
  BenchUnderTest test(1);
  benches::Sweep sweep(test.bench, "one");
  sweep.add("the point", [&](benches::PointContext& point) {
    return benches::evaluation::simulate(point, wanted);
  });
  const benches::Row row = sweep.run().front();
  CHECK(test.run.ok());
  return row;
}

inline double crit_ns(const benches::evaluation::CclPoint& wanted) {
  return benches::number_in(simulate_point(wanted), "crit_ns");
}

}  // namespace kernbench::test
