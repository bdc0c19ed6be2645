// The bench `overlap` on shipped machines, whose communication has packets and scratch of its own.

#include <catch2/catch.hpp>

#include "test/benches/program_json.h"

namespace kernbench::test::overlap_bench_test {
namespace {

TEST_CASE("a collective is hardly slower beside a composite, loads, and a large collective",
          "[cli][overlap][exhaustive]") {
  const std::string topology = GENERATE("default", "ring_1d_6", "mesh_2d_no_wrap_2x3");
  const auto rows =
      json_of({"run", "--bench", "overlap", "--topology", topology, "--json", "-"})["rows"];
  REQUIRE(rows.size() == 3);
  for (const auto& row : rows) {
    CAPTURE(row.dump());
    CHECK(row["ratio"].get<double>() >= 1);
    CHECK(row["ratio"].get<double>() <= row["goal"].get<double>());
  }
}

}  // namespace
}  // namespace kernbench::test::overlap_bench_test
