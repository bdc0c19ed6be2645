// kernbench compare: of rows, of reports and of two runs.

#include "benches/variants/comparison.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <vector>

#include "benches/bench/report.h"
#include "sim_engine/base/error.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::comparison_test {

using namespace benches;
using Catch::Contains;

namespace {

Row row_of(int n_elem, const std::string& algorithm, double time_ns, double exposed_ns) {
  return Row()
      .set("n_elem", n_elem)
      .set("algorithm", algorithm)
      .set("time_ns", time_ns)
      .set("exposed_ns", exposed_ns);
}

const std::vector<Row> kBefore = {row_of(1, "ring", 1000, 100), row_of(2, "ring", 2000, 100)};
const std::vector<Row> kAfter = {row_of(2, "tree", 3000, 900), row_of(1, "tree", 1100, 100)};

std::string report_text(const std::vector<Row>& rows, const std::string& bench = "b") {
  return to_json({.bench = bench, .topology = "tiny", .rows = rows});
}

std::string error_of(const std::vector<std::string>& words, int exit_code) {
  const ProgramResult result = run_program(words);
  CHECK(result.exit_code == exit_code);
  return result.err;
}

}  // namespace

TEST_CASE("rows are compared with those of the same input, whatever was changed", "[compare]") {
  const variants::Comparison comparison = variants::compare_rows(kBefore, kAfter);
  CHECK(comparison.differences == std::vector<std::string>{"algorithm: ring -> tree"});
  REQUIRE(comparison.rows.size() == 2);
  CHECK(comparison.rows[0].name == "n_elem 1");
  CHECK(comparison.rows[0].find("time_ns")->after == 1100);
  CHECK(comparison.rows[1].find("time_ns")->ratio() == 1.5);
  CHECK(to_table(comparison, "time_ns") ==
        fmt::format("#\n# algorithm: ring -> tree\n"
                    "# {:<54} {:>14} {:>14} {:>14} {:>8}\n# {:<54} {:>14} {:>14} {:>14}\n"
                    "  {:<54} {:>14} {:>14} {:>14} {:>8}\n  {:<54} {:>14} {:>14} {:>14} {:>8}\n"
                    "  {:<54} {:>14} {:>14} {:>14} {:>8}\n",
                    "time_ns", "before", "after", "difference", "ratio", "", "(us)", "(us)", "(us)",
                    "n_elem 2", "2.000", "3.000", "1.000", "1.500", "    exposed_ns", "0.100",
                    "0.900", "0.800", "9.000", "n_elem 1", "1.000", "1.100", "0.100", "1.100"));
}

TEST_CASE("bytes that HBM has moved are measured, and do not tell rows apart", "[compare]") {
  const auto row = [](const std::string& function, std::int64_t bytes) {
    return Row().set("function", function).set("time_ns", 1000.0).set("hbm_bytes", bytes);
  };
  const variants::Comparison comparison = variants::compare_rows(
      std::vector{row("gelu", 8), row("silu", 8)}, std::vector{row("silu", 16), row("gelu", 8)});
  REQUIRE(comparison.rows.size() == 2);
  CHECK(comparison.rows[0].name == "function gelu");
  CHECK(comparison.rows[1].find("hbm_bytes")->ratio() == 2);
}

TEST_CASE("rows of one run alone are counted", "[compare]") {
  const std::vector<Row> after = {row_of(2, "ring", 2000, 100), row_of(4, "ring", 4000, 100),
                                  row_of(8, "ring", 8000, 100)};
  const variants::Comparison comparison = variants::compare_rows(kBefore, after);
  CHECK(comparison.rows.size() == 1);
  CHECK(comparison.only_before == std::vector<std::string>{"n_elem 1"});
  CHECK(comparison.only_after == 2);
}

TEST_CASE("what some rows alone have in common does not keep rows of one input apart",
          "[compare]") {
  const std::vector<Row> after = {row_of(1, "tree", 900, 100), row_of(2, "ring", 2000, 100)};
  const variants::Comparison comparison = variants::compare_rows(kBefore, after);
  CHECK(comparison.differences == std::vector<std::string>{"algorithm: ring -> ring, tree"});
  CHECK(comparison.rows.size() == 2);
  CHECK(comparison.only_before.empty());
  CHECK(comparison.only_after == 0);
}

TEST_CASE("a condition compares a number with its baseline", "[compare]") {
  const auto holds = [](const std::string& text, double before, double after) {
    return variants::Condition(text).holds({"time_ns", before, after});
  };
  CHECK(holds("time_ns > 1.05 * baseline", 100, 105.1));
  CHECK_FALSE(holds("time_ns > 1.05 * baseline", 100, 105));
  CHECK(holds("time_ns>=baseline*1.05", 100, 105));
  CHECK(holds("time_ns < baseline", 100, 99));
  CHECK(holds("time_ns > baseline + 10", 100, 111));
  CHECK_FALSE(holds("time_ns > 1.5 * baseline + 10", 100, 160));
  CHECK(holds("time_ns <= 99", 100, 99));
  for (const char* wrong : {"", "time_ns", "> 3", "time_ns > fast", "time_ns > 2 * 3",
                            "time_ns > baseline * baseline", "time_ns > 1 +"}) {
    CAPTURE(wrong);
    CHECK_THROWS_WITH(variants::Condition(wrong), Contains("[KB-U019] --fail-if"));
  }
}

TEST_CASE("reports are compared, and a condition that holds is exit code 23", "[compare][cli]") {
  const TemporaryFolder folder;
  const std::string before = folder.write("before.json", report_text(kBefore));
  const std::string after = folder.write("after.json", report_text(kAfter));
  const ProgramResult result = run_program({"compare", before, after});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("\n  n_elem 2  "));
  CHECK(
      run_program({"compare", before, after, "--fail-if", "time_ns > 1.6 * baseline"}).exit_code ==
      0);
  CHECK_THAT(
      error_of({"compare", before, after, "--fail-if", "time_ns > 1.05 * baseline"}, 23),
      test::Says("KB-N050", "'time_ns > 1.05 * baseline'", "1", "2", "n_elem", "1100", "1000"));
  CHECK_THAT(error_of({"compare", before, after, "--fail-if", "tim > 5"}, 2),
             test::Says("KB-U019", "--fail-if", "'tim > 5'", "'tim'"));
}

TEST_CASE("a text where a number is wanted is told with its place", "[compare][cli]") {
  const TemporaryFolder folder;
  const std::string before = folder.write("before.json", report_text(kBefore));
  std::vector<Row> rows = kBefore;
  rows.back() = Row().set("n_elem", 2).set("algorithm", "ring").set("time_ns", "x");
  const std::string after = folder.write("after.json", report_text(rows));
  const std::string text =
      "[KB-I003] '" + after + "' is damaged: row 2 has 'x' for time_ns, which is a number";
  CHECK_THAT(error_of({"compare", before, after}, 3), Contains(text));
  CHECK_THAT(error_of({"compare", after, before}, 3), Contains(text));
  rows.back() = row_of(2, "ring", 2000, 100).set("longest_wait", "dma 0.018");  // is no number
  CHECK(run_program({"compare", before, folder.write("waits.json", report_text(rows))}).exit_code ==
        0);
}

TEST_CASE("a row that is gone is exit code 23 with a condition", "[compare][cli]") {
  const TemporaryFolder folder;
  const std::string before = folder.write("before.json", report_text(kBefore));
  const std::string after = folder.write("after.json", report_text({kBefore.back()}));
  const std::string condition = "time_ns > 1.05 * baseline";
  CHECK(run_program({"compare", before, after}).exit_code == 0);
  CHECK(run_program({"compare", after, before, "--fail-if", condition}).exit_code == 0);
  CHECK_THAT(error_of({"compare", before, after, "--fail-if", condition}, 23),
             test::Says("KB-N050", "1", "n_elem"));
  const std::string slower = folder.write("slower.json", report_text({kAfter.front()}));
  CHECK_THAT(
      error_of({"compare", before, slower, "--fail-if", condition}, 23),
      test::Says("KB-N050", "'time_ns > 1.05 * baseline'", "1", "n_elem", "2", "3000", "2000"));
}

TEST_CASE("reports of different benches are refused", "[compare][errors]") {
  const TemporaryFolder folder;
  const std::string before = folder.write("before.json", report_text(kBefore, "gemm"));
  const std::string after = folder.write("after.json", report_text(kAfter, "ccl-allreduce"));
  CHECK_THAT(error_of({"compare", before, after, "--fail-if", "time_ns > 9 * baseline"}, 3),
             test::Says("KB-I004", "'" + before + "'", "gemm", "'" + after + "'", "ccl-allreduce",
                        "same bench"));
}

TEST_CASE("a damaged report, or one of another version, is refused by name", "[compare][errors]") {
  const TemporaryFolder folder;
  const std::string good = folder.write("good.json", report_text(kBefore));
  const std::string text = report_text(kAfter);
  const std::string torn = folder.write("torn.json", text.substr(0, text.size() / 2));
  CHECK_THAT(error_of({"compare", good, torn}, 3),
             Contains("[KB-I003] '" + torn + "' is damaged, or no JSON"));
  const std::string other = folder.write("other.json", R"({"rows": []})");
  CHECK_THAT(error_of({"compare", other, good}, 3),
             Contains("[KB-I003] '" + other + "' is no report of kernbench run --json"));
  const std::string old = folder.write(
      "old.json", replaced(text, R"("kernbench": "0.1.0")", R"("kernbench": "0.0.9")"));
  CHECK_THAT(error_of({"compare", good, old}, 3),
             Contains("[KB-I003] '" + old +
                      "' was written by kernbench \"0.0.9\", and this is "
                      "0.1.0: run it again"));
  CHECK_THAT(error_of({"compare", good, folder.path("none.json")}, 3), Contains("[KB-I001]"));
  CHECK_THAT(error_of({"compare", good}, 2), Contains("[KB-U001] compare: give two reports"));
}

TEST_CASE("two runs are compared at once", "[compare][cli]") {
  const ProgramResult result =
      run_program({"compare", "--bench", "ccl-allreduce", "--topology", "ring_1d_6", "--set",
                   "algorithm=ring_allreduce,tree_allreduce", "n_elem=64,4096"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("# algorithm: ring_allreduce -> tree_allreduce\n"));
  CHECK_THAT(result.out, Contains("bytes 8192, n_elem 4096") && Contains("bytes 128, n_elem 64"));
  CHECK_THAT(result.out, !Contains("rows of one run alone"));
  CHECK_THAT(error_of({"compare", "--bench", "gemm", "--set", "m=1,2,3"}, 2),
             test::Says("KB-U017", "--set", "--topology", "3"));
}

}  // namespace kernbench::test::comparison_test
