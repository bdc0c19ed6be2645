// ADR-0044: the charts show what is in the rows.

#include "benches/evaluation/gemm_charts.h"

#include <catch2/catch.hpp>

#include "benches/bench/inputs.h"
#include "test/benches/figure/drawn.h"

namespace kernbench::benches::gemm_charts_test {

namespace {

Row row(evaluation::GemmFamily family, std::string_view shape, gemm::GemmOn on, std::int64_t side,
        double time_ns, double theoretical_ns) {
  const double pes = on == gemm::GemmOn::pe ? 1 : 8;
  const double flops = 2 * static_cast<double>(side * side * side);
  return Row()
      .set("family", name_of(family))
      .set("shape", shape)
      .set("on", name_of(on))
      .set("m", side)
      .set("n", side)
      .set("k", side)
      .set("pes", pes)
      .set("time_ns", time_ns)
      .set("theoretical_ns", theoretical_ns)
      .set("tflops", flops / time_ns / 1e3)
      .set("peak_tflops", pes * 3.072)
      .set("utilization", flops / time_ns / 1e3 / (pes * 3.072))
      .set("hbm_bytes", side * side * 6)
      .set("hbm_gbs", pes * 102.4);
}

std::vector<Row> some_rows() {
  return {row(evaluation::GemmFamily::square, "64", gemm::GemmOn::pe, 64, 900, 900),
          row(evaluation::GemmFamily::square, "128", gemm::GemmOn::pe, 128, 2'800, 2'700),
          row(evaluation::GemmFamily::square, "64", gemm::GemmOn::cube, 64, 500, 500),
          row(evaluation::GemmFamily::projection, "64 qkv, 32 tokens", gemm::GemmOn::pe, 64, 1'000,
              1'000),
          row(evaluation::GemmFamily::projection, "64 up, 32 tokens", gemm::GemmOn::pe, 64, 1'100,
              1'100),
          row(evaluation::GemmFamily::projection, "64 up, 2048 tokens", gemm::GemmOn::pe, 64, 1'200,
              1'200)};
}

// Checks that a chart of some_rows() has each of the texts once.
void check_texts(const figure::Chart& chart, const std::vector<std::string>& texts) {
  const std::string svg = test::drawn(chart, some_rows());
  if (svg.empty()) return;
  for (const std::string& text : texts) {
    INFO(text);
    CHECK(test::count_drawn(svg, text) == 1);
  }
}

const Topology& topology() {
  static const Topology topology = load_topology("default");
  return topology;
}

}  // namespace

TEST_CASE("the chart of measured against theoretical time counts what is equal",
          "[evaluation][figure]") {
  const figure::Chart chart = evaluation::agreement_chart(some_rows(), topology());
  CHECK_THAT(chart.note, Catch::Contains("5 of 6 points are equal to the picosecond"));
  check_texts(chart, {"measured time of the slowest PE (µs)",
                      "theoretical time of the slowest PE (µs)", "equal", "1 PE", "cube, 8 PEs"});
}

TEST_CASE("a placement without rows is in no legend", "[evaluation][figure]") {
  const std::string svg =
      test::drawn(evaluation::agreement_chart(some_rows(), topology()), some_rows());
  CHECK_THAT(svg, !Catch::Contains("SIP, 128 PEs"));
}

TEST_CASE("the chart of utilization is of square products, with its units",
          "[evaluation][figure]") {
  const figure::Chart chart = evaluation::square_utilization_chart(some_rows(), topology());
  CHECK_THAT(chart.subtitle, Catch::Contains("32 x 32 arrays, output_stationary"));
  check_texts(chart,
              {"utilization (% of peak)", "side of the square matrices (elements)", "64", "128"});
}

TEST_CASE("the projections' chart is of one number of tokens", "[evaluation][figure]") {
  check_texts(evaluation::projection_chart(some_rows(), topology(), 32),
              {"qkv", "up", "hidden size and projection"});
  const figure::Chart long_one = evaluation::projection_chart(some_rows(), topology(), 2'048);
  check_texts(long_one, {"up"});
  CHECK_THAT(test::drawn(long_one, some_rows()), !Catch::Contains("qkv"));
}

TEST_CASE("the roofline has the roof of a PE", "[evaluation][figure]") {
  const figure::Chart chart = evaluation::roofline_chart(some_rows(), topology());
  CHECK(chart.note ==
        "Roof: 3.072 TFLOP/s of the array, 102.4 GB/s of HBM for each PE. Traffic as counted, "
        "loads and stores.");
  check_texts(chart, {"arithmetic intensity (FLOP per byte of HBM traffic)",
                      "rate per PE (TFLOP/s)", "roof, 102.4 GB/s"});
}

TEST_CASE("arrays and memories without a rate have no roof", "[evaluation][figure]") {
  std::vector<Row> rows = {Row()
                               .set("family", "square")
                               .set("shape", "64")
                               .set("on", "pe")
                               .set("m", 64)
                               .set("n", 64)
                               .set("k", 64)
                               .set("pes", 1)
                               .set("tflops", 1.5)
                               .set("peak_tflops", std::optional<double>())
                               .set("hbm_bytes", 64)
                               .set("hbm_gbs", std::optional<double>())};
  const figure::Chart chart = evaluation::roofline_chart(rows, topology());
  CHECK_THAT(chart.note, Catch::StartsWith("Roof: inf TFLOP/s"));
  test::drawn(chart, rows);
}

}  // namespace kernbench::benches::gemm_charts_test
