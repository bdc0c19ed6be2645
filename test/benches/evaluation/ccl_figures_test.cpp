// ADR-0043: the figures are pure functions of rows, and show what is in them.

#include "benches/evaluation/ccl_figures.h"

#include <catch2/catch.hpp>

#include "sim_engine/base/error.h"

namespace kernbench::benches::ccl_figures_test {

namespace {

Row row(std::string_view topology, std::int64_t n_elem, std::string_view kind, double crit_ns) {
  return Row()
      .set("topology", topology)
      .set("algorithm", "intercube_allreduce")
      .set("n_elem", n_elem)
      .set("buffer_kind", kind)
      .set("crit_ns", crit_ns)
      .set("lower_bound_ns", 500.0);
}

std::vector<Row> latencies() {
  std::vector<Row> rows;
  double crit_ns = 4'000;
  for (const std::string_view topology : kEvaluatedTopologies) {
    for (const std::int64_t n_elem : kLatencySizes) {
      rows.push_back(row(topology, n_elem, "tcm", crit_ns += 100));
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("a latency figure names its topology, axes with units, and the bound", "[evaluation]") {
  const std::string svg = latency_figure(latencies(), "torus_2d_2x3");
  CHECK_THAT(svg, Catch::Contains("torus_2d_2x3") && Catch::Contains("6 SIPs in a 2 x 3 torus"));
  CHECK_THAT(svg, Catch::Contains("elements per cube, f16"));
  CHECK_THAT(svg, Catch::Contains("(µs)") && Catch::Contains("lower bound"));
  CHECK(svg == latency_figure(latencies(), "torus_2d_2x3"));
  CHECK(svg != latency_figure(latencies(), "ring_1d_6"));
}

TEST_CASE("the buffer kind figure has a curve for each memory", "[evaluation]") {
  std::vector<Row> rows;
  for (const std::string_view kind : {"tcm", "sram", "hbm"}) {
    rows.push_back(row("torus_2d_3x2", 128, kind, 5'000));
    rows.push_back(row("torus_2d_3x2", 1'024, kind, 6'000));
  }
  const std::string svg = buffer_kind_figure(rows);
  for (const std::string_view kind : {">tcm<", ">sram<", ">hbm<"}) {
    CHECK_THAT(svg, Catch::Contains(std::string(kind)));
  }
}

TEST_CASE("the model stands beside FSIM on a broken axis", "[evaluation]") {
  const std::string svg = fsim_figure(latencies(), shipped_fsim_reference());
  CHECK_THAT(svg, Catch::Contains("FSIM, 1 device") && Catch::Contains(">366<"));
  CHECK_THAT(svg, Catch::Contains("left out"));
  CHECK_THAT(svg, Catch::Contains(">5.20<"));  // ring_1d_6 at its largest size
}

TEST_CASE("the FSIM reference is a versioned data file", "[evaluation]") {
  const FsimReference reference = shipped_fsim_reference();
  CHECK(reference.latency == Time{366'000'000});
  CHECK(reference.devices == 1);
  CHECK_THROWS_AS(parse_fsim_reference("fsim_reference: 2\nlatency: 1 us\ndevices: 1", "f.yaml"),
                  ConfigError);
  CHECK_THROWS_AS(parse_fsim_reference("fsim_reference: 1\ndevices: 1", "f.yaml"), ConfigError);
}

}  // namespace kernbench::benches::ccl_figures_test
