// ADR-0043: the whole way on the topology and ccl.yaml that are used when nobody says otherwise.

#include <catch2/catch.hpp>

#include "test/benches/evaluation/evaluation_under_test.h"

namespace kernbench::benches::distributed_default_topology_test {

TEST_CASE("all_reduce is exact on the default topology", "[evaluation]") {
  const Row row = test::simulate_point({"default", 4'096});
  CHECK(number_in(row, "wrong") == 0);
  CHECK(text_in(row, "algorithm") == "intercube_allreduce");
  CHECK(text_in(row, "buffer_kind") == "tcm");
  CHECK(text_in(row, "root") == "center");
}

}  // namespace kernbench::benches::distributed_default_topology_test
