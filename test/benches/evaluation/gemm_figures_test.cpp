// ADR-0044: the figures are pure functions of rows, and show what is in them.

#include "benches/evaluation/gemm_figures.h"

#include <catch2/catch.hpp>

#include "benches/bench/inputs.h"

namespace kernbench::benches::gemm_figures_test {

namespace {

Row row(GemmFamily family, std::string_view shape, GemmOn on, std::int64_t side, double time_ns,
        double theoretical_ns) {
  const double pes = on == GemmOn::pe ? 1 : 8;
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
  return {row(GemmFamily::square, "64", GemmOn::pe, 64, 900, 900),
          row(GemmFamily::square, "128", GemmOn::pe, 128, 2'800, 2'700),
          row(GemmFamily::square, "64", GemmOn::cube, 64, 500, 500),
          row(GemmFamily::projection, "64 qkv, 32 tokens", GemmOn::pe, 64, 1'000, 1'000),
          row(GemmFamily::projection, "64 up, 32 tokens", GemmOn::pe, 64, 1'100, 1'100),
          row(GemmFamily::projection, "64 up, 2048 tokens", GemmOn::pe, 64, 1'200, 1'200)};
}

const Topology& topology() {
  static const Topology topology = load_topology("default");
  return topology;
}

}  // namespace

TEST_CASE("the figure of measured against theoretical counts what is equal", "[evaluation]") {
  const std::string svg = agreement_figure(some_rows(), topology());
  CHECK_THAT(svg, Catch::Contains("measured time of the slowest PE (µs)"));
  CHECK_THAT(svg, Catch::Contains("theoretical time of the slowest PE (µs)"));
  CHECK_THAT(svg, Catch::Contains("5 of 6 points are equal to the picosecond"));
  CHECK_THAT(svg, Catch::Contains(">1 PE<") && Catch::Contains(">cube, 8 PEs<"));
  CHECK(svg == agreement_figure(some_rows(), topology()));
}

TEST_CASE("the utilization figure is of square products, with its units", "[evaluation]") {
  const std::string svg = square_utilization_figure(some_rows(), topology());
  CHECK_THAT(svg, Catch::Contains("utilization (% of peak)"));
  CHECK_THAT(svg, Catch::Contains("side of the square matrices (elements)"));
  CHECK_THAT(svg, Catch::Contains("32 x 32 arrays, output_stationary"));
}

TEST_CASE("the projections' figure is of one number of tokens", "[evaluation]") {
  const std::string svg = projection_figure(some_rows(), topology(), 32);
  CHECK_THAT(svg, Catch::Contains("32 tokens") && Catch::Contains(">64 qkv<"));
  CHECK_THAT(projection_figure(some_rows(), topology(), 2'048), !Catch::Contains(">64 qkv<"));
}

TEST_CASE("the roofline has the roof of a PE", "[evaluation]") {
  const std::string svg = roofline_figure(some_rows(), topology());
  CHECK_THAT(svg, Catch::Contains("arithmetic intensity (FLOP per byte of HBM traffic)"));
  CHECK_THAT(svg, Catch::Contains("rate per PE (TFLOP/s)") && Catch::Contains(">roof<"));
  CHECK_THAT(svg, Catch::Contains("3.072 TFLOP/s of the array, 102.4 GB/s of HBM for each PE"));
}

TEST_CASE("figures of no rows, and of arrays without a rate, say so and do not fail",
          "[evaluation]") {
  Row nothing_takes_time = Row()
                               .set("family", "square")
                               .set("shape", "64")
                               .set("on", "pe")
                               .set("m", 64)
                               .set("n", 64)
                               .set("k", 64)
                               .set("pes", 1)
                               .set("time_ns", 0.0)
                               .set("theoretical_ns", 0.0)
                               .set("tflops", 0.0)
                               .set("peak_tflops", std::optional<double>())
                               .set("utilization", std::optional<double>())
                               .set("hbm_bytes", 64)
                               .set("hbm_gbs", std::optional<double>());
  const std::vector<Row> rows = {nothing_takes_time};
  for (const std::string& svg :
       {agreement_figure(rows, topology()), square_utilization_figure(rows, topology()),
        projection_figure(rows, topology(), 32), roofline_figure(rows, topology()),
        agreement_figure({}, topology()), square_utilization_figure({}, topology()),
        projection_figure({}, topology(), 32), roofline_figure({}, topology())}) {
    CHECK_THAT(svg, Catch::StartsWith("<svg") || Catch::StartsWith("<?xml"));
  }
}

}  // namespace kernbench::benches::gemm_figures_test
