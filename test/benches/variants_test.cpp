// Grids: --set with several values, for keys of the bench, the topology and ccl.yaml.

#include "benches/variants/variants.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "benches/bench/bench.h"
#include "benches/bench/cell.h"
#include "benches/variants/keys.h"
#include "benches/variants/row_plot.h"
#include "benches/variants/variant_sweep.h"
#include "sim_engine/base/error.h"
#include "test/benches/bench_under_test.h"
#include "test/benches/program_json.h"
#include "test/support/error_text.h"

namespace kernbench::test::variants_test {

using namespace benches;
using Catch::Contains;
using Catch::StartsWith;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

namespace {

Words allreduce(const Words& more, const std::string& topology = "tiny") {
  Words words = {"run", "--bench", "ccl-allreduce", "--topology", topology, "--json", "-"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// The report without what differs from run to run.
Json results_of(const Words& words) {
  Json report = json_of(words);
  report["engine"].erase("wall_s");
  report["engine"].erase("events_per_s");
  return report;
}

std::string error_of(const Words& words) {
  const ProgramResult result = run_program(words);
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  const std::string start = "kernbench: error: ";
  REQUIRE(result.err.starts_with(start));
  return result.err.substr(start.size(), result.err.size() - start.size() - 1);
}

Json column(const Json& rows, const std::string& name) {
  Json cells = Json::array();
  for (const Json& row : rows) cells.push_back(row.at(name));
  return cells;
}

}  // namespace

TEST_CASE("several values make a grid, the last key's following each other", "[variants]") {
  const Json rows = json_of(allreduce({"--set", "sip.ucie.bandwidth=64,128 GB/s", "--vary",
                                       "system.sips.count=2,3", "n_elem=64;32,96"}))["rows"];
  CHECK(column(rows, "sip.ucie.bandwidth") ==
        Json({"64 GB/s", "64 GB/s", "64 GB/s", "64 GB/s", "64 GB/s", "64 GB/s", "128 GB/s",
              "128 GB/s", "128 GB/s", "128 GB/s", "128 GB/s", "128 GB/s"}));
  CHECK(column(rows, "system.sips.count") == Json({2, 2, 2, 3, 3, 3, 2, 2, 2, 3, 3, 3}));
  CHECK(column(rows, "n_elem") == Json({64, 32, 96, 64, 32, 96, 64, 32, 96, 64, 32, 96}));
  CHECK(column(rows, "world_size") == column(rows, "system.sips.count"));
  CHECK(column(rows, "wrong") == Json(std::vector<int>(12, 0)));
}

TEST_CASE("a point of a grid is the run with its values", "[variants]") {
  const Json rows = json_of(allreduce(
      {"--set", "depth=2,8", "algorithm=ring_allreduce,tree_allreduce", "n_elem=4096"}))["rows"];
  REQUIRE(rows.size() == 4);
  for (const Json& row : rows) {
    const Json alone = json_of(
        allreduce({"--set", fmt::format("depth={}", row["depth"].get<int>()),
                   "algorithm=" + row["algorithm"].get<std::string>(), "n_elem=4096"}))["rows"][0];
    CHECK(row["time_ns"] == alone["time_ns"]);
    CHECK(row["crit_ns"] == alone["crit_ns"]);
  }
  CHECK(rows[0]["time_ns"] != rows[1]["time_ns"]);
}

TEST_CASE("a key of the topology has the effect of a file with that value", "[variants]") {
  const TemporaryFolder folder;
  const std::string text = read_file(KERNBENCH_ROOT "/topologies/default.yaml");
  const std::string file = folder.write(
      "default.yaml", replaced(text, "ucie: {bandwidth: 512 GB/s", "ucie: {bandwidth: 1024 GB/s"));
  Json set =
      results_of(allreduce({"--set", "sip.ucie.bandwidth=1024 GB/s", "n_elem=49152"}, "default"));
  CHECK(set["set"] == Json({{"sip.ucie.bandwidth", "1024 GB/s"}, {"n_elem", "49152"}}));
  set["set"].erase("sip.ucie.bandwidth");
  CHECK(set == results_of(allreduce({"--set", "n_elem=49152"}, file)));
}

TEST_CASE("topologies vary too, and jobs do not change results", "[variants]") {
  const Words words = {"run",    "--bench",  "gemm",  "--topology", "tiny,default",
                       "--set",  "m=1Ki,64", "n=64",  "k=64",       "pe.gemm.clock=1,2 GHz",
                       "--json", "-",        "--jobs"};
  Words one = words;
  one.emplace_back("1");
  Words four = words;
  four.emplace_back("4");
  const Json results = results_of(one);
  CHECK(results["rows"].size() == 8);
  CHECK(column(results["rows"], "topology")[0] == "tiny");
  CHECK(column(results["rows"], "topology")[4] == "default");
  CHECK(column(results["rows"], "m") == Json({1024, 1024, 64, 64, 1024, 1024, 64, 64}));
  CHECK(results == results_of(four));
}

TEST_CASE("a wrong key or value is told before anything runs", "[variants][errors]") {
  CHECK_THAT(error_of(allreduce({"--set", "sip.ucie.bandwith=64 GB/s"})),
             test::Says("KB-U011", "--set", "'sip.ucie.bandwith'", "'sip.ucie.bandwidth'"));
  CHECK_THAT(error_of(allreduce({"--set", "poll_intervall=1 ns"})),
             test::Says("KB-U011", "--set", "'poll_intervall'", "'poll_interval'", "ccl.yaml"));
  CHECK_THAT(error_of(allreduce({"--set", "colour=red"})),
             test::Says("KB-U011", "--set", "'colour'", "`kernbench keys`"));
  CHECK_THAT(error_of(allreduce({"--set", "foo=3"})),
             Contains("KB-U011") && Contains("'foo'; `kernbench keys`"));
  const std::string no_unit = error_of(allreduce({"--set", "sip.ucie.bandwidth=64,128"}));
  CHECK_THAT(no_unit, test::Says("KB-U012", "--set", "tiny.yaml"));
  CHECK_THAT(no_unit, test::Says("KB-Y011", "sip.ucie.bandwidth", "'64'", "unit", "GB/s", "TiB/s"));
  CHECK_THAT(error_of(allreduce({"--set", "depth=0"})),
             test::Says("KB-Y020", "--set", "ccl.yaml", "defaults.depth", "0", "[1, 1024]"));
  CHECK_THAT(error_of(allreduce({"--set", "depth=4,4"})),
             test::Says("KB-U012", "--set depth=4,4", "'4'", "twice"));
  CHECK_THAT(error_of(allreduce({"--set", "depth=4,,8"})),
             test::Says("KB-U012", "--set depth=4,,8", "no value", "','"));
  CHECK_THAT(error_of(allreduce({"--set", "depth=4", "depth=8"})),
             test::Says("KB-U010", "--set", "depth", "twice"));
}

TEST_CASE("a grid of more than 10,000 points asks for --yes", "[variants][errors]") {
  std::string many = "n_elem=1";
  for (int i = 2; i <= 101; ++i) many += fmt::format(";{}", i);
  std::string depths = "depth=1";
  for (int i = 2; i <= 100; ++i) depths += fmt::format(",{}", i);
  CHECK_THAT(error_of(allreduce({"--set", many, depths})),
             test::Says("KB-U016", "10,100", "--yes", "10,000"));
}

TEST_CASE("a value of a grid that is refused leaves the others their rows", "[variants][errors]") {
  const Words small = {"run",      "--bench",   "ddp",   "--set",    "world=2",
                       "layers=1", "hidden=32", "seq=8", "vocab=64", "batch=1"};
  Words words = small;
  words.insert(words.end(), {"heads=2,3,4", "--json", "-"});
  const ProgramResult result = run_program(words);
  CHECK(result.exit_code == 1);
  std::map<int, int> rows;  // by heads
  const Json report = Json::parse(result.out);
  for (const Json& row : report["rows"]) {
    ++rows[row["heads"].get<int>()];
    CHECK(row.contains("error") == (row["heads"] == 3));
    if (row["heads"] == 3)
      CHECK_THAT(row["error"], StartsWith("[KB-U012] ddp: hidden 32 is no multiple of heads"));
  }
  CHECK(rows == std::map<int, int>{{2, 6}, {3, 1}, {4, 6}});
  CHECK_THAT(result.err, Contains("[KB-B003] grid: 'heads=3' has failed: [KB-U012] ddp: hidden 32 "
                                  "is no multiple of heads"));
  words = small;
  words.emplace_back("heads=3,5");
  const ProgramResult none = run_program(words);
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.err,
             StartsWith("kernbench: error: [KB-U012] ddp: hidden 32 is no multiple of heads"));
}

TEST_CASE("a column that no row has is refused when the first value has run", "[variants][plot]") {
  static int simulated = 0;
  const BenchInfo info{"copies", "", {{"count", "1", "", SettingType::integer}}, [](Bench& bench) {
                         bench.submit_sentinel();
                         ++simulated;
                         bench.add_row(Row().set("bytes", 4));
                       }};
  const variants::VariantMaker maker(
      {.bench = &info, .topologies = "tiny", .assignments = {"count=1,2,3,4"}});
  BenchUnderTest test(BenchUnderTest::request_of(1));
  const auto check = [](std::span<const Row> rows) {
    variants::check_columns(rows, {.x = "count", .y = "time"});
  };
  CHECK_THROWS_WITH(variants::run_variants(test.bench, "grid", info, maker.all(),
                                           {.check_first = check, .goes_on = true}),
                    Contains("[KB-U018] --plot: the rows have no column 'time'"));
  CHECK(simulated == 1);
}

TEST_CASE("a column that no row has is refused at the first row of one run, with those that are",
          "[cli][plot]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program({"run", "--bench", "ccl-allreduce", "--topology", "tiny", "--plot",
                   "x=count,y=time_ns", "--out", folder.path("plot")});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, Contains("[KB-U018] --plot: the rows have no column 'count'; there are: "
                                  "collective, algorithm, ") &&
                             Contains(", n_elem, "));
  CHECK_THAT(result.out, !Contains("Out of bounds values"));  // the bench has not ended
}

TEST_CASE("a quantity may stand directly before its unit", "[variants]") {
  const BenchInfo info{"copies", "", {}, nullptr};
  const auto variants = [&](const Words& assignments) {
    return variants::VariantMaker(
               {.bench = &info, .topologies = "tiny", .assignments = assignments})
        .all();
  };
  const auto both = variants({"slot=1KiB", "sip.ucie.bandwidth=64,128GB/s"});
  REQUIRE(both.size() == 2);
  CHECK(both[0].ccl.ipcq().slot_bytes == 1024);
  CHECK(both[0].topology.sip.ucie.bandwidth == Bandwidth{64'000'000'000});
  CHECK(both[1].topology.sip.ucie.bandwidth == Bandwidth{128'000'000'000});
  CHECK(variants({"slot=2Ki"}).front().ccl.ipcq().slot_bytes == 2048);
}

TEST_CASE("an interrupted grid goes on where it was", "[variants][journal]") {
  static std::set<std::string> simulated;
  static BenchRun* interrupted = nullptr;
  const BenchInfo info{"copies", "", {{"count", "1", "", SettingType::integer}}, [](Bench& bench) {
                         const std::string& count = bench.settings().text("count");
                         if (interrupted != nullptr && count == "3") interrupted->interrupt();
                         bench.submit_sentinel();
                         simulated.insert(count);
                         bench.add_row(Row().set("bytes", 4));
                       }};
  const TemporaryFolder folder;
  const variants::VariantMaker maker(
      {.bench = &info, .topologies = "tiny", .assignments = {"count=1,2,3,4"}});
  const std::vector<variants::Variant> variants = maker.all();
  const auto run = [&](bool interrupts) {
    BenchRequest request = BenchUnderTest::request_of(1);
    request.recording = {};
    request.output_folder = folder.path("out");
    request.inputs = maker.inputs();
    BenchUnderTest test(request);
    interrupted = interrupts ? &test.run : nullptr;
    simulated.clear();
    variants::run_variants(test.bench, "grid", info, variants);
    return test.results();
  };
  CHECK_THROWS_WITH(run(true), Contains("2 of 4 points of grid are finished"));
  const std::string resumed = run(false);
  CHECK(simulated == std::set<std::string>{"3", "4"});
  std::filesystem::remove_all(folder.path("out"));
  CHECK(run(false) == resumed);
  CHECK(simulated.size() == 4);
}

TEST_CASE("every key has a help", "[variants][keys]") {
  for (const std::string topology : {"default", "tiny", "torus_2d_2x3", "mesh_2d_no_wrap_2x3"}) {
    const variants::Keys keys({.topology = topology});
    for (const variants::Key& key : keys.all()) {
      CAPTURE(key.path);
      CHECK_FALSE(key.help.empty());
      CHECK(keys.find(key.name).path == key.path);
    }
  }
}

TEST_CASE("keys lists type, unit, value and help", "[variants][keys]") {
  const Json keys = json_of({"keys", "--bench", "ccl-allreduce", "--json", "-"})["keys"];
  const auto of = [&](const std::string& name) {
    for (const Json& key : keys) {
      if (key["key"] == name) return key;
    }
    return Json();
  };
  CHECK(of("sip.ucie.bandwidth") == Json({{"key", "sip.ucie.bandwidth"},
                                          {"of", "the topology default"},
                                          {"type", "bandwidth"},
                                          {"unit", "GB/s"},
                                          {"allowed", "or unlimited"},
                                          {"value", "512 GB/s"},
                                          {"help", "between neighbouring cubes, each way"}}));
  CHECK(of("cube.pe_layout.corners")["value"] == "NW,NE,SW,SE");
  CHECK(of("energy.hbm")["type"] == "energy per bit or byte");
  CHECK(of("system.sips.w")["value"] == "");
  CHECK(of("depth") == Json({{"key", "depth"},
                             {"of", "ccl.yaml"},
                             {"type", "integer"},
                             {"unit", ""},
                             {"allowed", "1 to 1024"},
                             {"value", "4"},
                             {"help", "slots of a queue"}}));
  CHECK(of("n_elem")["of"] == "the bench ccl-allreduce");
}

TEST_CASE("the narrow table has at most 120 columns", "[variants]") {
  std::vector<Row> rows;
  for (int i = 0; i < 2; ++i) {
    Row& row = rows.emplace_back();
    row.set("same", "yes").set("x", i).set("third", (1.0 + i) / 3);
    for (int c = 0; c < 20; ++c) row.set(fmt::format("column{}", c), 10'000'000 + i);
  }
  const std::string text = variants::to_narrow_table(rows);
  CHECK(text.starts_with("# in all rows: same yes\n#  x     third   column0"));
  CHECK_THAT(text, Contains("\n   0  0.333333  10000000"));
  CHECK_THAT(text, Contains("# 10 more columns are in --json and --csv\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 120);
}

}  // namespace kernbench::test::variants_test
