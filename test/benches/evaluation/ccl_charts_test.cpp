// ADR-0043: the charts show what is in the rows.

#include "benches/evaluation/ccl_charts.h"

#include <catch2/catch.hpp>

#include "sim_engine/base/error.h"
#include "test/benches/figure/drawn.h"

namespace kernbench::benches::ccl_charts_test {

namespace {

Row row(std::string_view topology, std::int64_t n_elem, std::string_view kind, double crit_ns) {
  return Row()
      .set("topology", topology)
      .set("algorithm", "intercube_allreduce")
      .set("n_elem", n_elem)
      .set("buffer_kind", kind)
      .set("crit_ns", crit_ns)
      .set("theory_ns", 3'000.0)
      .set("lower_bound_ns", 500.0);
}

std::vector<Row> latencies() {
  std::vector<Row> rows;
  double crit_ns = 4'000;
  for (const std::string_view topology : evaluation::kEvaluatedTopologies) {
    for (const std::int64_t n_elem : evaluation::kLatencySizes) {
      rows.push_back(row(topology, n_elem, "tcm", crit_ns += 100));
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("the latency chart has all topologies, axes with units, the theory and the bound",
          "[evaluation][figure]") {
  const figure::Chart chart = evaluation::latency_chart(latencies());
  CHECK(chart.subtitle == "6 SIPs of 4 x 4 cubes of 8 PEs; intercube_allreduce, queues in tcm");
  const std::string svg = test::drawn(chart, latencies());
  if (svg.empty()) return;
  for (const char* text :
       {"ring_1d_6", "torus_2d_2x3", "mesh_2d_no_wrap_2x3", "theory", "lower bound",
        "elements per cube, f16", "latency of the slowest PE (µs)", "8", "512", "32 Ki"}) {
    INFO(text);
    CHECK(test::count_drawn(svg, text) >= 1);
  }
}

TEST_CASE("the chart of buffer kinds has a curve for each memory", "[evaluation][figure]") {
  std::vector<Row> rows;
  for (const std::string_view kind : {"tcm", "sram", "hbm"}) {
    rows.push_back(row("torus_2d_3x2", 128, kind, 5'000));
    rows.push_back(row("torus_2d_3x2", 1'024, kind, 6'000));
  }
  const figure::Chart chart = evaluation::buffer_kind_chart(rows);
  CHECK(chart.title == "all_reduce on torus_2d_3x2: where the queues lie");
  const std::string svg = test::drawn(chart, rows);
  if (svg.empty()) return;
  for (const char* kind : {"tcm", "sram", "hbm", "lower bound"}) {
    CHECK(test::count_drawn(svg, kind) == 1);
  }
}

TEST_CASE("the model stands beside FSIM on a broken axis", "[evaluation][figure]") {
  const std::string svg = test::drawn(
      evaluation::fsim_chart(latencies(), evaluation::shipped_fsim_reference()), latencies());
  if (svg.empty()) return;
  CHECK(test::count_drawn(svg, "FSIM, 1 device") == 1);
  CHECK(test::count_drawn(svg, "10 to 363 left out") == 1);  // 1.2 times 7.6 us, rounded up
  CHECK(test::count_drawn(svg, "366") == 1);
}

TEST_CASE("where FSIM lies among the curves no axis is broken", "[evaluation][figure]") {
  const evaluation::FsimReference near{.latency = Time{6'000'000}};
  const std::string svg = test::drawn(evaluation::fsim_chart(latencies(), near), latencies());
  CHECK_THAT(svg, !Catch::Contains("left out"));
}

TEST_CASE("the FSIM reference is a versioned data file", "[evaluation]") {
  const evaluation::FsimReference reference = evaluation::shipped_fsim_reference();
  CHECK(reference.latency == Time{366'000'000});
  CHECK(reference.devices == 1);
  CHECK_THROWS_AS(
      evaluation::parse_fsim_reference("fsim_reference: 2\nlatency: 1 us\ndevices: 1", "f.yaml"),
      ConfigError);
  CHECK_THROWS_AS(evaluation::parse_fsim_reference("fsim_reference: 1\ndevices: 1", "f.yaml"),
                  ConfigError);
}

}  // namespace kernbench::benches::ccl_charts_test
