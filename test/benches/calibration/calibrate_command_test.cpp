// `kernbench calibrate`: machines with known figures are simulated, and found again from their
// times.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::calibrate_command_test {
namespace {

using Catch::Contains;
using nlohmann::json;
using Words = std::vector<std::string>;

const std::string kCcl = R"(defaults: {algorithm: ring_allreduce}
# The times that software takes.
protocols:
  - LL: {up_to: 16 KiB, start: 3 us, latency: 600 ns, efficiency: 50 %}  # small
  - Simple: {start: 6 us, latency: 1 us, efficiency: 80 %}
rules:
  - all_gather: {algorithm: ring}
)";

std::string with_four_sips() {
  return replaced(read_file(KERNBENCH_ROOT "/topologies/tiny.yaml"), "count: 2", "count: 4");
}

json rows_of(const ProgramResult& result) {
  CAPTURE(result.err);
  REQUIRE(result.out.starts_with('{'));
  return json::parse(result.out)["rows"];
}

ProgramResult calibrate(Words words) {
  words.insert(words.begin(), "calibrate");
  words.insert(words.end(), {"--set", "iters=1"});
  return run_program(words);
}

// A file of sizes for which any times are published.
std::string any_times() {
  std::string text = "bytes,all_reduce_us,all_gather_us\n";
  for (int bytes = 1024; bytes <= 1 << 22; bytes *= 4) text += fmt::format("{},1,1\n", bytes);
  return text;
}

// The machine's simulated times stand for published ones.
std::string published_by(const TemporaryFolder& folder, const std::string& machine,
                         const std::string& ccl) {
  const ProgramResult result = calibrate(
      {machine + "=" + folder.write("any.csv", any_times()), "--ccl", ccl, "--json", "-"});
  std::map<std::int64_t, std::string> lines;
  for (const json& row : rows_of(result)) {
    lines[row["bytes"]] += fmt::format(",{}", row["simulated_us"].get<double>());
  }
  std::string text = "bytes,all_reduce_us,all_gather_us\n";
  for (const auto& [bytes, times] : lines) text += fmt::format("{}{}\n", bytes, times);
  return text;
}

// Machines of two and of four SIPs that have the figures of kCcl, and a ccl.yaml with others.
struct Family {
  TemporaryFolder folder;
  std::string four = folder.write("four.yaml", with_four_sips());
  std::string known = folder.write("known.yaml", kCcl);
  std::string two_csv = folder.write("two.csv", published_by(folder, "tiny", known));
  std::string four_csv = folder.write("four.csv", published_by(folder, four, known));
  std::string elsewhere = folder.write(
      "elsewhere.yaml",
      replaced(
          replaced(replaced(replaced(kCcl, "3 us", "9 us"), "16 KiB", "256 KiB"), "6 us", "1 us"),
          "80 %", "40 %"));
  Words machines = {"tiny=" + two_csv, four + "=" + four_csv, "--ccl", elsewhere};

  ProgramResult fit(const Words& more) const {
    Words words = machines;
    words.insert(words.end(), more.begin(), more.end());
    return calibrate(words);
  }
};

double value_of(const json& rows, const std::string& parameter) {
  for (const json& row : rows) {
    if (row.contains("parameter") && row["parameter"] == parameter) return row["value"];
  }
  FAIL("no parameter " << parameter);
  return 0;
}

const Words kSmooth = {"--fit",
                       "protocols.LL.start=1..30us",
                       "protocols.Simple.start=0.5..50us",
                       "protocols.Simple.latency=0..5us",
                       "protocols.Simple.efficiency=10..100%",
                       "system.sip_link.latency=100..2000ns"};

TEST_CASE("figures of a family are found again from the times of two machines",
          "[calibration][exhaustive]") {
  const Family family;
  Words words = kSmooth;
  words.insert(words.end(),
               {"protocols.LL.up_to=1KiB..1MiB", "--json", "-", "--out", family.folder.path("o")});
  const ProgramResult result = family.fit(words);
  CHECK(result.exit_code == 0);
  const json rows = rows_of(result);
  CHECK(value_of(rows, "protocols.LL.start") == Approx(3).epsilon(1e-3));
  CHECK(value_of(rows, "protocols.Simple.start") == Approx(6).epsilon(1e-3));
  CHECK(value_of(rows, "protocols.Simple.latency") == Approx(1).epsilon(1e-3));
  CHECK(value_of(rows, "protocols.Simple.efficiency") == Approx(80).epsilon(1e-3));
  CHECK(value_of(rows, "system.sip_link.latency") == Approx(300).epsilon(1e-3));
  const double up_to = value_of(rows, "protocols.LL.up_to");
  CHECK(up_to >= 16);
  CHECK(up_to < 64);
  for (const json& row : rows) {
    if (!row.contains("bytes")) continue;
    CHECK(std::abs(row["error_percent"].get<double>()) < 0.1);
    CHECK(std::abs(row["left_out_error_percent"].get<double>()) < 0.5);
  }

  const ProgramResult again = calibrate({family.folder.path("o/tiny.yaml") + "=" + family.two_csv,
                                         family.folder.path("o/four.yaml") + "=" + family.four_csv,
                                         "--ccl", family.folder.path("o/ccl.yaml"), "--json", "-"});
  const json fitted = rows_of(again);
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    CHECK(fitted[i]["simulated_us"] == rows[i]["simulated_us"]);
  }
  CHECK_THAT(family.folder.read("o/ccl.yaml"),
             Contains("# The times that software takes.") && Contains("%}  # small") &&
                 Contains("# protocols.LL.start: fitted: 95 % ") &&
                 Contains("from two.csv, four.csv"));
  CHECK_THAT(family.folder.read("o/tiny.yaml"),
             Contains("  # system.sip_link.latency: fitted: 95 % ") &&
                 Contains("# Every figure is that of default.yaml"));
  CHECK_THAT(family.folder.read("o/fit.csv"), Contains("left_out_error_percent"));
  CHECK_THAT(family.folder.read("o/parameters.csv"), Contains("protocols.LL.up_to"));
  CHECK_THAT(family.folder.read("o/fit.gp"), Contains("fit.csv"));
}

// At the start both protocols are the same, so the size at which one takes over moves nothing.
TEST_CASE("a switch between protocols that begin alike is found", "[calibration]") {
  const Family family;
  const std::string alike = family.folder.write(
      "alike.yaml",
      replaced(replaced(replaced(replaced(kCcl, "6 us", "3 us"), "1 us", "600 ns"), "80 %", "50 %"),
               "16 KiB", "512 KiB"));
  const ProgramResult result =
      calibrate({"tiny=" + family.two_csv, family.four + "=" + family.four_csv, "--ccl", alike,
                 "--json", "-", "--fit", "protocols.LL.start=1..30us",
                 "protocols.Simple.start=1..30us", "protocols.Simple.latency=0..5us",
                 "protocols.Simple.efficiency=10..100%", "protocols.LL.up_to=1KiB..1MiB"});
  CHECK(result.exit_code == 0);
  const json rows = rows_of(result);
  CHECK(value_of(rows, "protocols.Simple.start") == Approx(6).epsilon(1e-3));
  CHECK(value_of(rows, "protocols.LL.up_to") >= 16);
  CHECK(value_of(rows, "protocols.LL.up_to") < 64);
}

TEST_CASE("keys that are joined have one value", "[calibration]") {
  const Family family;
  const std::string joined = "protocols.LL.start+protocols.Simple.start";
  const ProgramResult result =
      family.fit({"--fit", joined + "=1..30us", "--json", "-", "--out", family.folder.path("o")});
  const json rows = rows_of(result);
  const double value = value_of(rows, joined);
  CHECK(value > 1);
  CHECK(value < 9);
  const std::string ccl = family.folder.read("o/ccl.yaml");
  CHECK_THAT(ccl, Contains(fmt::format("256 KiB, start: {} us", value)) &&
                      Contains(fmt::format("- Simple: {{start: {} us", value)));
  CHECK_THAT(family.fit({"--fit", "protocols.LL.start+depth=1..30us"}).err,
             Says("KB-U012", "time", "integer", "one value"));
  CHECK_THAT(family.fit({"--fit", "protocols.LL.start+protocols.LL.start=1..30us"}).err,
             Says("KB-U021", "protocols.LL.start", "two ranges"));
}

TEST_CASE("without --fit each row is shown, and errors by file and collective", "[calibration]") {
  const Family family;
  const ProgramResult result = family.fit({});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("# tiny, " + family.two_csv) &&
                             Contains("mean  median   worst") && Contains("all_gather") &&
                             Contains("ring_allreduce"));
  CHECK(result.out.find("left out") == std::string::npos);
}

TEST_CASE("a fit that would say nothing is refused", "[calibration][errors]") {
  const Family family;
  const ProgramResult idle = family.fit({"--fit", "pe.gemm.clock=1..2GHz"});
  CHECK(idle.exit_code == 2);
  CHECK_THAT(idle.err, Says("KB-U022", "--fit pe.gemm.clock", "moves no row", "leave it out"));
  const ProgramResult ranks = family.fit({"--fit", "system.sips.count=2..3"});
  CHECK(ranks.exit_code == 2);
  CHECK_THAT(ranks.err, Says("KB-U012", "would have 2 SIPs", "are those of 4"));
  const ProgramResult open = family.fit({"--fit", "sip_link.bandwidth=8..unlimited"});
  CHECK(open.exit_code == 2);
  CHECK_THAT(open.err, Says("KB-U012", "the high end", "unlimited is no figure"));
  const std::string few = family.folder.write("few.csv", "bytes,all_reduce_us\n1024,9\n4096,9\n");
  const ProgramResult many =
      calibrate({"tiny=" + few, "--fit", "sip_link.latency=1..2us,sip_link.bandwidth=1..2GB/s"});
  CHECK(many.exit_code == 2);
  CHECK_THAT(many.err, Says("KB-U022", "2 parameters", "half of the 2 rows", "fit fewer"));
}

TEST_CASE("a parameter that ends at its bound is told, with exit code 1", "[calibration][errors]") {
  const Family family;
  const ProgramResult result =
      family.fit({"--fit", "protocols.Simple.start=10..30us,protocols.LL.up_to=1KiB..1MiB"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err,
             Says("KB-B003", "--fit protocols.Simple.start", "ended at its bound 10 us", "wider"));
  CHECK_THAT(result.out, Contains("at its bound"));
}

TEST_CASE("parameters that act alike are told as a pair", "[calibration][errors]") {
  const Family family;
  const std::string near = family.folder.write(
      "near.yaml", replaced(replaced(kCcl, "600 ns", "700 ns"), "1 us", "2 us"));
  const ProgramResult result = calibrate(
      {"tiny=" + family.two_csv, "--ccl", near, "--fit", "system.sip_link.latency=1..9000ns",
       "protocols.Simple.latency=1..9000ns", "protocols.LL.latency=1..9000ns"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Says("KB-B003", "--fit protocols.LL.latency", "nearly collinear",
                              "system.sip_link.latency", "correlation"));
}

TEST_CASE("a parameter that the rows do not determine is told", "[calibration][errors]") {
  const Family family;
  const std::string csv = family.folder.write(
      "small.csv", "bytes,all_reduce_us\n1024,6.7\n4096,6.6\n16384,7.9\n65536,11\n");
  const ProgramResult result =
      calibrate({"tiny=" + csv, "--ccl", family.known, "--fit", "system.sip_link.latency=1..900ns",
                 "sip.ucie.latency=1..900ns"});
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.err, Says("KB-B003", "--fit sip.ucie.latency", "wider than its bounds",
                              "do not determine"));
}

TEST_CASE("machines and ranges that cannot be read are told", "[calibration][errors]") {
  const Family family;
  const ProgramResult alone = calibrate({"tiny"});
  CHECK(alone.exit_code == 2);
  CHECK_THAT(alone.err, Says("KB-U001", "'tiny'", "MACHINE=FILE.csv"));
  CHECK_THAT(calibrate({"tiny=" + family.two_csv, "tiny=" + family.two_csv}).err,
             Says("KB-U001", "given twice"));
  CHECK_THAT(calibrate({"tiny=no_such.csv"}).err, Says("KB-I001", "no_such.csv"));
  CHECK_THAT(calibrate({"no_such_machine=" + family.two_csv}).err, Says("KB-U004"));
  CHECK_THAT(family.fit({"--fit", "sip_link.latency=9ns"}).err, Says("KB-U021", "--fit"));
  CHECK_THAT(calibrate({"tiny=" + family.two_csv, "--set", "depth=1,2"}).err,
             Says("KB-U016", "one value"));
  CHECK_THAT(calibrate({"tiny=" + family.two_csv, "--set", "csv=a.csv"}).err,
             Says("KB-U012", "MACHINE=FILE.csv"));
  const std::string empty = family.folder.write("empty.csv", "");
  CHECK_THAT(calibrate({"tiny=" + empty}).err, Says("KB-Y048", "empty.csv:1:1"));
}

TEST_CASE("an interrupted fit says so and leaves no fitted files", "[calibration][signals]") {
  const Family family;
  Words words = family.machines;
  words.insert(words.begin(), "calibrate");
  words.insert(words.end(), kSmooth.begin(), kSmooth.end());
  words.insert(words.end(), {"--set", "iters=50", "--out", family.folder.path("o")});
  const ProgramResult result = run_program(words, {.interrupt_after_s = 0.5});
  CHECK(result.exit_code == 130);
  CHECK_THAT(result.err, Contains("KB-S001"));
  CHECK_FALSE(std::filesystem::exists(family.folder.path("o/ccl.yaml")));
}

}  // namespace
}  // namespace kernbench::test::calibrate_command_test
