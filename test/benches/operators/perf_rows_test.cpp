#include "benches/operators/perf_rows.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "benches/bench/cell.h"
#include "benches/bench/row_cells.h"
#include "benches/operators/operator_cases.h"
#include "test/benches/figure/drawn.h"

namespace kernbench::test::perf_rows_test {
namespace {

using namespace benches::operators;
using benches::Row;
using Catch::Contains;
using Catch::StartsWith;

const std::vector<ProviderInfo> kProviders = {
    naive(), compiled(), fused(nullptr, nullptr), {"compiled_fused", "Compiled Fused", {}}};

MeasuredBoth both(Time time) {
  const Measured one{.time = time,
                     .in_kernels = time / 2,
                     .roofline = Time{1'000'000},
                     .kernels = 3,
                     .bytes = 1024};
  return {one, one};
}

// 8, 4, 2 and 4 microseconds.
Row row_of(std::int64_t seq, std::int64_t factor = 1) {
  const Definition definition =
      define(*operator_cases().find("rms"), {{2, seq, 64}, DType::bf16, 0});
  std::vector<MeasuredBoth> measured;
  for (const std::int64_t us : {8, 4, 2, 4}) measured.push_back(both(Time{us * 1'000'000}));
  measured[2] = both(Time{2'000'000 / factor});
  return perf_row(definition, kProviders, Direction::forward, measured);
}

TEST_CASE("a row has the seed's columns, then the roofline and what was reached of it",
          "[perf_rows]") {
  std::string columns;
  const Row row = row_of(1024);
  for (const auto& [column, cell] : row.cells()) columns += column + "\n";
  CHECK(columns ==
        "dim\nbatch_size\nseq_len\n"
        "Naive (us)\nCompiled (us)\nFused (us)\nCompiled Fused (us)\nSpeedUp\nRoofline (us)\n"
        "Naive of roofline (%)\nCompiled of roofline (%)\nFused of roofline (%)\n"
        "Compiled Fused of roofline (%)\nNaive kernels\nNaive in kernels (us)\n"
        "Compiled kernels\nCompiled in kernels (us)\nFused kernels\nFused in kernels (us)\n"
        "Compiled Fused kernels\nCompiled Fused in kernels (us)\n");
  CHECK(number_in(row, "dim") == 64);
  CHECK(number_in(row, "batch_size") == 2);
  CHECK(number_in(row, "seq_len") == 1024);
  CHECK(number_in(row, "SpeedUp") == 4);
  CHECK(number_in(row, "Roofline (us)") == 1);
  CHECK(number_in(row, "Fused of roofline (%)") == 50);
  CHECK(number_in(row, "Naive in kernels (us)") == 4);
}

TEST_CASE("microseconds of whole picoseconds are the shortest digits that say them",
          "[perf_rows]") {
  CHECK(fmt::format("{}", microseconds(Time{5'600'662})) == "5.600662");
  CHECK(fmt::format("{}", microseconds(Time{1})) == "1e-06");
}

TEST_CASE("speed-ups are over the first provider, their mean is geometric", "[perf_rows]") {
  const std::vector<Row> rows = {row_of(1024), row_of(2048, 4)};
  CHECK(speed_up(rows[0], kProviders, kProviders[1]) == 2);
  CHECK(speed_up(rows[1], kProviders, kProviders[2]) == 16);
  CHECK(mean_speed_up(rows, kProviders, kProviders[2]) == Approx(8));  // of 4 and 16
  CHECK(mean_speed_up(rows, kProviders, kProviders[1]) == Approx(2));
}

TEST_CASE("without a provider named fused the last one's speed-up is shown", "[perf_rows]") {
  const Definition definition = define(*operator_cases().find("rms"), {{1, 16, 8}, DType::bf16, 0});
  const std::vector<ProviderInfo> two = {naive(), compiled()};
  const std::vector<MeasuredBoth> measured = {both(Time{900}), both(Time{300})};
  CHECK(number_in(perf_row(definition, two, Direction::backward, measured), "SpeedUp") == 3);
}

TEST_CASE("where nothing takes time there is no speed-up and no share", "[perf_rows]") {
  const Definition definition = define(*operator_cases().find("rms"), {{1, 16, 8}, DType::bf16, 0});
  const std::vector<ProviderInfo> two = {naive(), compiled()};
  const std::vector<MeasuredBoth> measured(2);
  const Row row = perf_row(definition, two, Direction::forward, measured);
  CHECK(std::holds_alternative<std::nullptr_t>(*row.find("SpeedUp")));
  CHECK(std::holds_alternative<std::nullptr_t>(*row.find("Naive of roofline (%)")));
  const std::vector<Row> rows = {row};
  CHECK_THAT(perf_table("nothing", rows, two),
             Contains("       0.000          0.000        -      0.000              -") &&
                 Contains("over Naive: Compiled -\n") && !Contains("nan"));
  CHECK(speed_up_chart("nothing", "", "a.csv", rows, two).note ==
        "Geometric mean: Compiled -. Times include launches.");
}

TEST_CASE("the table has the rows' figures, and the means below", "[perf_rows]") {
  const std::vector<Row> rows = {row_of(1024), row_of(2048, 4)};
  const std::string table = perf_table("rms, bf16, fwd", rows, kProviders);
  CHECK_THAT(table, Contains("# rms, bf16, fwd\n"));
  CHECK_THAT(table, Contains("     64      2   1024      8.000      4.000      2.000          4.000"
                             "     4.00      1.000   12.5   25.0   50.0   25.0\n"));
  CHECK_THAT(table, Contains("# geometric mean of the speed-up over Naive: Compiled 2.00, Fused "
                             "8.00, Compiled Fused 2.00\n"));
}

TEST_CASE("the table says what SpeedUp is of, and of one provider has no means", "[perf_rows]") {
  const std::vector<Row> rows = {row_of(1024)};
  CHECK_THAT(perf_table("t", rows, kProviders), Contains("# SpeedUp: Naive / Fused\n"));
  const std::vector<ProviderInfo> one = {naive()};
  CHECK_THAT(perf_table("t", rows, one), !Contains("geometric mean"));
}

Measured of(Time time, Time in_kernels, int kernels) {
  return {.time = time,
          .in_kernels = in_kernels,
          .roofline = Time{1'000'000},
          .kernels = kernels,
          .bytes = 0};
}

std::string table_of(const Measured& compiled_one, const Measured& fused_one) {
  const Definition definition = define(*operator_cases().find("rms"), {{1, 16, 8}, DType::bf16, 0});
  const std::vector<ProviderInfo> providers = {naive(), compiled(), fused(nullptr, nullptr)};
  const Measured first = of(Time{9'000'000}, Time{5'000'000}, 4);
  const std::vector<MeasuredBoth> measured = {
      {first, first}, {compiled_one, compiled_one}, {fused_one, fused_one}};
  const std::vector<Row> rows = {perf_row(definition, providers, Direction::forward, measured)};
  return perf_table("t", rows, providers);
}

TEST_CASE("where a further launch costs more than it saves, a line says so", "[perf_rows]") {
  const Measured compiled_one = of(Time{4'000'000}, Time{3'000'000}, 1);
  CHECK_THAT(table_of(compiled_one, of(Time{4'500'000}, Time{2'500'000}, 2)),
             Contains("# Fused launches 2 kernels, Compiled 1: where that costs more (1.0 us each) "
                      "than they save, it is slower\n"));
  // Its kernels are slower themselves.
  CHECK_THAT(table_of(compiled_one, of(Time{5'500'000}, Time{3'500'000}, 2)),
             !Contains("launches"));
}

TEST_CASE("a provider that is faster than the roofline is named", "[perf_rows]") {
  const Measured other = of(Time{2'000'000}, Time{1'000'000}, 1);
  CHECK_THAT(table_of(other, other), !Contains("less time in kernels than the roofline"));
  CHECK_THAT(table_of(other, of(Time{1'900'000}, Time{900'000}, 1)),
             Contains("# Fused: 1 of 1 sizes take less time in kernels than the roofline"));
}

TEST_CASE("the chart has a curve for each provider and dim, and the means", "[perf_rows][figure]") {
  const std::vector<Row> rows = {row_of(1024), row_of(2048, 4)};
  const auto chart = speed_up_chart("rms, bf16, fwd", "somewhere", "a.csv", rows, kProviders);
  CHECK_THAT(chart.note, StartsWith("Geometric mean: Compiled 2.00, Fused 8.00"));
  const std::string svg = drawn(chart, rows);
  if (svg.empty()) return;
  for (const char* text :
       {"rms, bf16, fwd: speed-up over Naive", "somewhere", "speed-up over Naive",
        "sequence length (tokens), batch 1", "1 Ki", "2 Ki", "Compiled, dim 64", "Fused, dim 64",
        "Compiled Fused, dim 64", "Naive"}) {
    INFO(text);
    CHECK(count_drawn(svg, text) == 1);
  }
}

// Compiled and Compiled Fused have the same curve here.
TEST_CASE("a curve under another one is wider, so that both are seen", "[perf_rows][figure]") {
  const std::vector<Row> rows = {row_of(1024), row_of(2048, 4)};
  const std::string svg = drawn(speed_up_chart("rms", "", "a.csv", rows, kProviders), rows);
  if (svg.empty()) return;
  for (const char* width :
       {"stroke-width=\"12.50\"", "stroke-width=\"7.50\"", "stroke-width=\"2.50\""}) {
    CHECK_THAT(svg, Contains(width));
  }
}

}  // namespace
}  // namespace kernbench::test::perf_rows_test
