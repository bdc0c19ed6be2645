// ADR-0043: the evaluated topologies give the exact sum, in every type.

#include <catch2/catch.hpp>

#include "test/benches/evaluation/evaluation_under_test.h"

namespace kernbench::benches::allreduce_ring_torus_mesh_test {

TEST_CASE("all_reduce is exact on the evaluated topologies", "[evaluation][exhaustive]") {
  const std::string_view topology = GENERATE(from_range(std::vector(
      evaluation::kEvaluatedTopologies.begin(), evaluation::kEvaluatedTopologies.end())));
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  for (const std::int64_t n_elem : {1, 8, 1'019}) {
    const Row row = test::simulate_point({topology, n_elem, dtype});
    CHECK(number_in(row, "wrong") == 0);
    CHECK(number_in(row, "n_elem") == static_cast<double>(n_elem));
    CHECK(text_in(row, "topology") == topology);
    CHECK(number_in(row, "crit_ns") <= number_in(row, "time_ns"));
    CHECK(number_in(row, "lower_bound_ns") < number_in(row, "crit_ns"));
  }
}

}  // namespace kernbench::benches::allreduce_ring_torus_mesh_test
