// Published times beside simulated ones: how files are read, and that the shipped machine takes its
// published times.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "benches/collectives/published_times.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::calibrate_test {
namespace {

using benches::collectives::MeasuredCollective;
using benches::collectives::parse_published_times;
using Catch::Contains;

TEST_CASE("a column is a collective, a line a size; fields may be empty", "[calibrate]") {
  const auto times = parse_published_times(
      "# a comment\n\nbytes,all_reduce_us,all_gather_us\r\n1024,13.12,\n4096,15.28,14\n", "t.csv");
  REQUIRE(times.size() == 3);
  CHECK(times[0].collective == MeasuredCollective::all_reduce);
  CHECK(times[0].size == 1024);
  CHECK(times[0].time == Time{13'120'000});
  CHECK(times[1].time == Time{15'280'000});
  CHECK(times[2].collective == MeasuredCollective::all_gather);
  CHECK(times[2].size == 4096);
  CHECK(times[2].time == Time{14'000'000});
}

TEST_CASE("what is wrong in a file is told with its place", "[calibrate][errors]") {
  const auto error = [](const char* text) {
    return error_of<ConfigError>([&] { parse_published_times(text, "t.csv"); });
  };
  CHECK_THAT(error("size,all_reduce_us\n"), Contains("t.csv:1:1: [KB-Y048]"));
  CHECK_THAT(error("bytes,all_reduce\n1,2\n"), Contains("t.csv:1:7: [KB-Y048]"));
  CHECK_THAT(error("bytes,all_reduce_us,all_reduce_us\n1024,3,4\n"),
             Contains("t.csv:1:7: [KB-Y048] 'all_reduce_us' is there more than once") &&
                 Contains("t.csv:1:21: [KB-Y048]"));
  CHECK_THAT(error("bytes,all_reduce_us\n1024,13.1x\n"), Contains("t.csv:2:6: [KB-Y048]"));
  CHECK_THAT(error("bytes,all_reduce_us\n1024,13.1,7\n"), Contains("t.csv:2:1: [KB-Y048]"));
  CHECK_THAT(error("bytes,all_reduce_us\n-4,13.1\n"), Contains("t.csv:2:1: [KB-Y048]"));
  CHECK_THAT(error("bytes,all_reduce_us\n7\n"),
             Contains("a number of bytes and 1 time") && !Contains("1 times"));
  for (const char* time : {"inf", "infinity", "nan", "1e300", "9223372036855", "1e-9", "0", "-1"}) {
    CAPTURE(time);
    CHECK_THAT(error(("bytes,all_reduce_us\n1024," + std::string(time) + "\n").c_str()),
               Contains("t.csv:2:6: [KB-Y048] expected microseconds such as 13.12, got '"));
  }
  CHECK_THAT(error("\xEF\xBB\xBF"
                   "bytes,all_reduce_us\n1024,13\n"),
             Says("KB-Y048", "t.csv:1:1", "byte order mark", "without"));
  CHECK_THAT(error("bytes,\"all_reduce_us\"\n"),
             Says("KB-Y048", "t.csv:1:7", "quote", "without quotes"));
  CHECK_THAT(error("# nothing\n"), Contains("[KB-Y048]"));
  CHECK_THAT(error("bytes,all_reduce_us\n"), Contains("t.csv: [KB-Y048] no rows"));
}

const std::string kFolder = KERNBENCH_ROOT "/topologies/h100_8/";

TEST_CASE("h100_8 takes the published times of all_reduce within 10 %", "[calibrate]") {
  const ProgramResult result = run_program(
      {"run", "--bench", "calibrate", "--topology", "h100_8", "--ccl", kFolder + "ccl.yaml",
       "--set", "csv=" + kFolder + "published.csv", "iters=2", "tolerance=10"});
  CAPTURE(result.out, result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("switch_allreduce") && Contains("direct_allreduce"));
}

// Times between two sizes lie near the line from one to the other.
TEST_CASE("h100_8 takes times between the published ones at sizes between theirs", "[calibrate]") {
  std::ostringstream published;
  published << std::ifstream(kFolder + "published.csv").rdbuf();
  const auto times = parse_published_times(published.str(), "published.csv");
  std::string between = "bytes,all_reduce_us\n";
  for (std::size_t i = 0; i + 1 < times.size(); ++i) {
    REQUIRE(times[i + 1].size == 4 * times[i].size);
    const double here = to_ns(times[i].time) / 1e3;
    const double there = to_ns(times[i + 1].time) / 1e3;
    between += fmt::format("{},{:.3f}\n", 2 * times[i].size, here + (there - here) / 3);
  }
  const TemporaryFolder folder;
  const ProgramResult result = run_program(
      {"run", "--bench", "calibrate", "--topology", "h100_8", "--ccl", kFolder + "ccl.yaml",
       "--set", "csv=" + folder.write("between.csv", between), "iters=2", "tolerance=10"});
  CAPTURE(result.out, result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("a row that is off by more than the tolerance fails the run", "[calibrate]") {
  const TemporaryFolder folder;
  const std::string csv = folder.write("wrong.csv", "bytes,all_reduce_us\n1024,1\n");
  const ProgramResult result = run_program(
      {"run", "--bench", "calibrate", "--topology", "tiny", "--set", "csv=" + csv, "tolerance=50"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err,
             test::Says("KB-B003", "calibrate", "'all_reduce of 1024 B, 1 us'", "passed", "check"));
  const ProgramResult refusal = run_program({"run", "--bench", "calibrate"});
  CHECK(refusal.exit_code == 2);
  CHECK_THAT(refusal.err, test::Says("KB-U012", "csv=FILE", "bytes,all_reduce_us", "h100_8"));
  CHECK(refusal.err.find('\n') <= 120);
  CHECK(refusal.err.size() <= 121 + 121);  // with the ends of two lines
}

}  // namespace
}  // namespace kernbench::test::calibrate_test
