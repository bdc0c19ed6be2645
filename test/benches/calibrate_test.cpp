// Published times beside simulated ones: how files are read, and that the shipped machines take
// their published times.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "benches/bench/inputs.h"
#include "benches/collectives/published_times.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::calibrate_test {
namespace {

using benches::ccl_text;
using benches::load_topology;
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
  CHECK_THAT(
      error("bytes,all_reduce_ms\n1024,3\n"),
      Says("KB-Y048", "t.csv:1:7", "'all_reduce_ms' is in ms", "microseconds", "'all_reduce_us'"));
  CHECK_THAT(error("bytes,all_gather_busbw_gbs\n1024,3\n"),
             Says("KB-Y048", "t.csv:1:7", "no time in microseconds", "'all_gather_us'"));
  CHECK_THAT(error("bytes,all_reduce_us\n1024,13\n# again\n1024,14\n"),
             Says("KB-Y048", "t.csv:4:1", "the size 1024 has a row already, in line 2"));
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

const std::string kFolder = KERNBENCH_ROOT "/topologies/";

// Errors of rows, in percent.
struct Errors {
  int rows = 0;
  double sum = 0;
  double worst = 0;

  double mean() const { return sum / rows; }
};

void add_errors(Errors& errors, const std::string& machine, const std::string& csv) {
  const ProgramResult result = run_program({"run", "--bench", "calibrate", "--topology", machine,
                                            "--set", "csv=" + csv, "iters=2", "--json", "-", "-q"});
  CAPTURE(result.out, result.err);
  REQUIRE(result.exit_code == 0);
  const auto report = nlohmann::json::parse(result.out);
  for (const auto& row : report.at("rows")) {
    const double error = std::abs(row.at("error_percent").get<double>());
    errors.rows += 1;
    errors.sum += error;
    errors.worst = std::max(errors.worst, error);
  }
}

// Each machine with the ccl.yaml that belongs to it, which nobody names.
TEST_CASE("machines that exist take their published times", "[calibrate]") {
  struct Maker {
    std::vector<std::string> machines;
    double mean;
    double worst;
  };
  const Maker maker = GENERATE(Maker{{"h100_8"}, 6, 17}, Maker{{"a100_8"}, 4, 10},
                               Maker{{"tt_wormhole_8_ring", "tt_wormhole_2_line",
                                      "tt_blackhole_2_line", "tt_blackhole_4_line"},
                                     8,
                                     30});
  CAPTURE(maker.machines.front());
  Errors errors;
  for (const std::string& machine : maker.machines) {
    add_errors(errors, machine, kFolder + machine + "/published.csv");
  }
  CHECK(errors.mean() <= maker.mean);
  CHECK(errors.worst <= maker.worst);
}

TEST_CASE("machines of a family differ in their SIPs alone", "[calibrate]") {
  const std::string family = GENERATE("tt_wormhole", "tt_blackhole");
  const std::string first = family + "_8_ring";
  const Topology one = load_topology(first);
  for (const std::string other : {"_2_line", "_4_line", "_4_ring", "_8_line"}) {
    CAPTURE(other);
    CHECK(ccl_text(family + other) == ccl_text(first));
    const Topology topology = load_topology(family + other);
    CHECK(topology.sip == one.sip);
    CHECK(topology.cube == one.cube);
    CHECK(topology.pe == one.pe);
    CHECK(topology.system.sip_link == one.system.sip_link);
    CHECK(topology.system.host_link == one.system.host_link);
  }
}

// Times between two sizes lie near the line from one to the other, also where the machine changes
// its algorithm.
TEST_CASE("h100_8 takes times between the published ones at sizes between theirs", "[calibrate]") {
  std::ostringstream published;
  published << std::ifstream(kFolder + "h100_8/published.csv").rdbuf();
  const auto times = parse_published_times(published.str(), "published.csv");
  std::string between = "bytes,all_reduce_us\n";
  for (std::size_t i = 0; times[i + 1].collective == MeasuredCollective::all_reduce; ++i) {
    REQUIRE(times[i + 1].size == 4 * times[i].size);
    const double here = to_ns(times[i].time) / 1e3;
    const double there = to_ns(times[i + 1].time) / 1e3;
    between += fmt::format("{},{:.3f}\n", 2 * times[i].size, here + (there - here) / 3);
  }
  const TemporaryFolder folder;
  Errors errors;
  add_errors(errors, "h100_8", folder.write("between.csv", between));
  CHECK(errors.mean() <= 6);
  CHECK(errors.worst <= 17);
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
