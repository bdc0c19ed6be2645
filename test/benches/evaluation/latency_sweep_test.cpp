// ADR-0043: what must be so of a latency curve, whatever the figures of the model.

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/benches/evaluation/evaluation_under_test.h"

namespace kernbench::benches::latency_sweep_test {

TEST_CASE("latency grows with the size once every link has something to carry",
          "[evaluation][exhaustive]") {
  const std::string_view topology = GENERATE(from_range(std::vector(
      evaluation::kEvaluatedTopologies.begin(), evaluation::kEvaluatedTopologies.end())));
  double last = 0;
  for (const std::int64_t n_elem : {512, 2'048, 8'192, 49'152}) {
    const double latency = test::crit_ns({topology, n_elem});
    CHECK(latency > last * 0.995);  // where latencies are all, a little less may take its place
    last = latency;
  }
}

TEST_CASE("the theory lies between the bound and what is measured", "[evaluation][exhaustive]") {
  const std::string_view topology = GENERATE(from_range(std::vector(
      evaluation::kEvaluatedTopologies.begin(), evaluation::kEvaluatedTopologies.end())));
  for (const std::int64_t n_elem : {8, 49'152}) {
    const Row row = test::simulate_point({topology, n_elem});
    CHECK(number_in(row, "lower_bound_ns") < number_in(row, "theory_ns"));
    CHECK(number_in(row, "theory_ns") < number_in(row, "crit_ns"));
  }
}

TEST_CASE("what PEs wait for those launched later is not in the joint execution", "[evaluation]") {
  const auto figures = [](std::string_view topology) {
    const Row row = test::simulate_point({topology, 1'024});
    return std::pair(number_in(row, "joint_ns"), number_in(row, "crit_ns"));
  };
  const auto [joint_at_once, at_once] = figures("zero_overhead");  // all PEs begin at one instant
  CHECK(joint_at_once == at_once);
  const auto [joint, critical] = figures("torus_2d_2x3");
  CHECK(joint < critical);
}

TEST_CASE("the evaluated sizes are those of ADR-0043: without 16, up to 96 KiB of f16",
          "[evaluation]") {
  CHECK(std::ranges::is_sorted(evaluation::kLatencySizes));
  CHECK(std::ranges::find(evaluation::kLatencySizes, 16) == evaluation::kLatencySizes.end());
  CHECK(evaluation::kLatencySizes.front() == 8);
  CHECK(evaluation::kLatencySizes.back() * size_of(DType::f16) == 96 << 10);
}

// A ring of 6 has 6 steps between SIPs, a torus of 2 x 3 has 4.
TEST_CASE("small tensors take a ring of six longer than a torus of 2 x 3",
          "[evaluation][exhaustive]") {
  CHECK(test::crit_ns({"ring_1d_6", 128}) > test::crit_ns({"torus_2d_2x3", 128}));
}

}  // namespace kernbench::benches::latency_sweep_test
