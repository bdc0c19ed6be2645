// A sweep that is interrupted and goes on, in one process and as a program.

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "benches/bench/bench.h"
#include "benches/bench/cell.h"
#include "sim_engine/base/error.h"
#include "test/benches/bench_under_test.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::resumed_sweep_test {

using benches::BenchRequest;
using benches::PointContext;
using benches::Row;
using benches::Sweep;
using Catch::Contains;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kPoints = 8;

// A sweep of copies in `request`'s folder; point `interrupt_at` interrupts the bench.
struct Run {
  Run(const BenchRequest& request, int interrupt_at = -1) : test(request) {
    Sweep sweep(test.bench, "copies");
    for (int i = 0; i < kPoints; ++i) {
      sweep.add(std::to_string(i), [this, i, interrupt_at](PointContext& point) {
        if (i == interrupt_at) test.run.interrupt();
        const auto torch = point.make_context();
        torch->ones({1, 64}).copy_(
            RuntimeContext::from_blob(std::vector<float>(64).data(), {1, 64}));
        simulated.insert(i);
        return Row().set("i", i).set("ns", torch->engine().now_ns());
      });
    }
    try {
      sweep.run();
    } catch (const Error& thrown) {
      error = thrown.what();
    }
  }

  std::set<int> simulated;  // with one job
  std::string error;
  BenchUnderTest test;
};

BenchRequest request_in(const TemporaryFolder& folder) {
  BenchRequest request = BenchUnderTest::request_of(1);
  request.recording = {};
  request.output_folder = folder.path("out");
  request.inputs = "topology and ccl.yaml";
  return request;
}

}  // namespace

TEST_CASE("a sweep goes on where it was interrupted, with the same results", "[sweep][journal]") {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  const BenchRequest request = request_in(folder);
  const Run first(request, 3);
  CHECK_THAT(first.error, test::Says("KB-S001", "3 of 8", "copies",
                                     "'" + folder.path("out/copies.journal") + "'"));
  CHECK(first.test.run.rows().size() == 3);

  Run second(request);
  CHECK(second.error.empty());
  CHECK(second.simulated == std::set<int>{3, 4, 5, 6, 7});
  CHECK(second.test.results() == Run(request_in(other)).test.results());

  second.test.run.remove_journals();
  CHECK(Run(request).simulated.size() == kPoints);
}

TEST_CASE("points of other inputs are never used", "[sweep][journal]") {
  const TemporaryFolder folder;
  const BenchRequest request = request_in(folder);
  const Run first(request, 5);
  BenchRequest other = request;
  SECTION("another file") {
    other.inputs += " edited";
  }
  SECTION("another seed") {
    other.seed = 1;
  }
  SECTION("another topology") {
    other.topology.name = "other";
  }
  CHECK(Run(other).simulated.size() == kPoints);
  CHECK(Run(request).simulated.size() == kPoints - 5);
}

TEST_CASE("with a trace all points are simulated", "[sweep][journal]") {
  const TemporaryFolder folder;
  BenchRequest request = request_in(folder);
  const Run first(request, 5);
  request.recording.trace = runtime::TraceLevel::units;
  const Run second(request);
  CHECK(second.simulated.size() == kPoints);
  CHECK(second.test.run.contexts.traces().size() == kPoints);
}

TEST_CASE("points that failed their check or the run do not get lost", "[sweep][journal]") {
  const TemporaryFolder folder;
  for (int run = 0; run < 2; ++run) {
    BenchUnderTest test(request_in(folder));
    Sweep sweep(test.bench, "s");
    sweep.add("wrong", [run](PointContext& point) {
      point.check(run > 0);
      return Row().set("run", run);
    });
    sweep.add("throws", [](PointContext&) -> Row { throw std::runtime_error("no"); });
    CHECK_THROWS_WITH(sweep.run(), "no");
    CHECK_FALSE(test.run.ok());
    CHECK(std::get<std::int64_t>(*test.run.rows()[0].find("run")) == 0);
  }
}

namespace {

struct ProgramRun {
  ProgramResult result;
  Json report;  // without wall time
};

ProgramRun run_sweeps(const TemporaryFolder& folder, const std::string& jobs,
                      std::vector<std::pair<std::string, std::string>> environment = {}) {
  ProgramRun run;
  run.result = run_program({"run", "--bench", "sweeps", "--topology", "tiny", "--jobs", jobs,
                            "--json", "report.json", "--csv", "rows.csv"},
                           {.program = OWN_BENCHES_PROGRAM,
                            .folder = folder.path(""),
                            .environment = std::move(environment)});
  run.report = Json::parse(folder.read("report.json"));
  run.report["engine"].erase("wall_s");
  run.report["engine"].erase("events_per_s");
  return run;
}

}  // namespace

TEST_CASE("the program writes the same files for any number of jobs", "[sweep][cli]") {
  const TemporaryFolder one;
  const TemporaryFolder four;
  const ProgramRun serial = run_sweeps(one, "1");
  const ProgramRun parallel = run_sweeps(four, "4");
  CHECK(serial.result.exit_code == 0);
  CHECK(serial.report == parallel.report);
  for (const char* file : {"rows.csv", "own/sweeps/summary.csv", "own/sweeps/figures/dot.png"}) {
    CHECK(one.read(file) == four.read(file));
  }
  CHECK(one.read("own/sweeps/figures/dot.png") == std::string("\x89PNG\0\r\n", 7));
  CHECK_THAT(serial.result.out, Contains("#   wrote         own/sweeps/summary.csv\n"
                                         "#   wrote         own/sweeps/figures/dot.png\n"
                                         "#   wrote         report.json\n"
                                         "#   wrote         rows.csv\n"));
  CHECK(serial.result.err.empty());
  CHECK_FALSE(std::filesystem::exists(one.path("own/sweeps/copies.journal")));
}

TEST_CASE("a program that got a signal goes on from there at its next run", "[sweep][cli]") {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  const std::string variable = GENERATE("SIGNAL", "NONE");
  const ProgramRun first = run_sweeps(folder, "1", {{"INTERRUPT_AT", "5"}, {variable, "TERM"}});
  CHECK(first.result.exit_code == (variable == "SIGNAL" ? 143 : 130));
  CHECK_THAT(first.result.err, test::Says("KB-S001", "5", "12", "'own/sweeps/copies.journal'"));
  CHECK(first.report["rows"].size() == 5);
  CHECK(first.report["ok"] == false);

  const ProgramRun second = run_sweeps(folder, "2");
  CHECK(second.result.exit_code == 0);
  CHECK_THAT(second.result.out,
             Contains("#   resumed       5 of 12 points of copies are taken from the interrupted "
                      "run\n"));
  CHECK(second.report == run_sweeps(other, "2").report);
  CHECK(folder.read("rows.csv") == other.read("rows.csv"));
  CHECK_FALSE(std::filesystem::exists(folder.path("own/sweeps/copies.journal")));
}

TEST_CASE("all jobs of a program are interrupted", "[sweep][cli]") {
  const TemporaryFolder folder;
  const ProgramRun first = run_sweeps(folder, "4", {{"INTERRUPT_AT", "3"}});
  CHECK(first.result.exit_code == 130);
  CHECK(run_sweeps(folder, "4").result.exit_code == 0);
}

TEST_CASE("what ends the process of a point costs that point", "[sweep][cli][errors]") {
#if !defined(KERNBENCH_ASAN)  // which takes SIGSEGV
  const bool is_killed = GENERATE(true, false);
#else
  const bool is_killed = true;
#endif
  const TemporaryFolder folder;
  const TemporaryFolder other;
  const ProgramRun first =
      run_sweeps(folder, "3", {{"CRASH_AT", "4"}, {is_killed ? "KILL" : "NONE", "1"}});
  CHECK(first.result.exit_code == 1);
  CHECK_THAT(first.result.err, test::Says("KB-B004", "'copy 4'", "'copies'",
                                          is_killed ? "killed by signal 9 (Killed)"
                                                    : "killed by signal 11 (Segmentation fault)",
                                          "11 of 12", "'own/sweeps/copies.journal'"));
  CHECK(first.report["rows"].size() == 11);

  const ProgramRun second = run_sweeps(folder, "3");
  CHECK(second.result.exit_code == 0);
  CHECK_THAT(second.result.out, Contains("#   resumed       11 of 12 points of copies "));
  CHECK(second.report == run_sweeps(other, "1").report);
}

TEST_CASE("an error of a point is the same for any number of jobs", "[sweep][cli][errors]") {
  const TemporaryFolder one;
  const TemporaryFolder eight;
  const ProgramRun serial = run_sweeps(one, "1", {{"THROW_AT", "5"}});
  const ProgramRun parallel = run_sweeps(eight, "8", {{"THROW_AT", "5"}});
  CHECK(serial.result.exit_code == 22);
  CHECK(serial.result.err == "kernbench: error: [KB-M010] copy 5 is ill\n");
  CHECK(parallel.result.exit_code == serial.result.exit_code);
  CHECK(parallel.result.err == serial.result.err);
  CHECK(parallel.report == serial.report);
}

namespace {

ProgramResult run_shard(const TemporaryFolder& folder, std::vector<std::string> more) {
  std::vector<std::string> words = {"run", "--bench", "sweeps", "--topology", "tiny"};
  words.insert(words.end(), more.begin(), more.end());
  return run_program(words, {.program = OWN_BENCHES_PROGRAM, .folder = folder.path("")});
}

std::string without_wall_time(std::string text) {
  return std::regex_replace(std::move(text),
                            std::regex("\"(wall_s|events_per_s)\": [^\n]*|wall[^\n]*"), "");
}

}  // namespace

TEST_CASE("shards that are merged are what one run is", "[sweep][cli][journal]") {
  const TemporaryFolder folder;
  const TemporaryFolder whole;
  for (const std::string number : {"1", "2", "3"}) {
    const ProgramResult shard =
        run_shard(folder, {"--out", "part" + number, "--shard", number + "/3"});
    CHECK(shard.exit_code == 0);
    CHECK_THAT(shard.out,
               Contains("#   shard         " + number + "/3: 4 of 12 points of copies are in part" +
                        number + "/copies.journal; "));
    CHECK(shard.err.empty());
  }
  CHECK(std::filesystem::exists(folder.path("part3/copies.journal")));
  CHECK_FALSE(std::filesystem::exists(folder.path("part3/report.json")));
  // CRASH_AT shows that nothing is simulated any more.
  const ProgramResult merged =
      run_program({"run", "--bench", "sweeps", "--topology", "tiny", "--jobs", "2", "--out", "all",
                   "--journals", "part1,part2,part3"},
                  {.program = OWN_BENCHES_PROGRAM,
                   .folder = folder.path(""),
                   .environment = {{"CRASH_AT", "4"}}});
  const ProgramResult alone = run_shard(whole, {"--out", "all"});
  CHECK(merged.exit_code == 0);
  CHECK(without_wall_time(merged.out) == without_wall_time(alone.out));
  for (const char* const file : {"report.csv", "summary.csv", "report.json"}) {
    CHECK(without_wall_time(folder.read("all/" + std::string(file))) ==
          without_wall_time(whole.read("all/" + std::string(file))));
  }
}

TEST_CASE("journals of other inputs are told and not used", "[sweep][cli][journal]") {
  const TemporaryFolder folder;
  CHECK(run_shard(folder, {"--out", "part", "--shard", "1/2", "--seed", "1"}).exit_code == 0);
  const ProgramResult merged = run_shard(folder, {"--out", "all", "--journals", "part"});
  CHECK(merged.exit_code == 0);
  CHECK_THAT(merged.out, Contains("#   journal       part/copies.journal is of another build or of "
                                  "other inputs: not used\n"));
}

TEST_CASE("a shard that cannot be is refused", "[sweep][cli][errors]") {
  const TemporaryFolder folder;
  for (const char* const text : {"0/2", "3/2", "1", "1/", "/2", "a/b", "1/2/3", "-1/2"}) {
    const ProgramResult result = run_shard(folder, {"--out", "out", "--shard", text});
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, test::Says("KB-U012", "--shard", text, "I/N", "1/3"));
  }
  CHECK_THAT(run_shard(folder, {"--shard", "1/2"}).err, test::Says("KB-U012", "--out DIR"));
  CHECK_THAT(run_shard(folder, {"--out", "out", "--shard", "1/2", "--explain"}).err,
             test::Says("KB-U012", "--shard", "--explain"));
  CHECK_THAT(run_shard(folder, {"--out", "out", "--journals", "nowhere"}).err,
             test::Says("KB-U012", "'nowhere'", "folder"));
}

TEST_CASE("a damaged journal is told, and its points are simulated again", "[sweep][cli]") {
  const TemporaryFolder folder;
  const TemporaryFolder other;
  run_sweeps(folder, "1", {{"INTERRUPT_AT", "5"}});
  folder.write("own/sweeps/copies.journal",
               replaced(folder.read("own/sweeps/copies.journal"), "\"copy 2\"", "\"copy 7\""));
  const ProgramRun second = run_sweeps(folder, "2");
  CHECK_THAT(
      second.result.out,
      Contains("#   journal       own/sweeps/copies.journal: damaged; 1 of its points is not "
               "used\n#   resumed       4 of 12 points of copies are taken from the "
               "interrupted run\n"));
  CHECK(second.report == run_sweeps(other, "1").report);
}

TEST_CASE("an output folder that cannot be is found before anything is simulated",
          "[sweep][cli][errors]") {
  const TemporaryFolder folder;
  folder.write("own", "");
  const ProgramResult result =
      run_program({"run", "--bench", "sweeps", "--topology", "tiny"},
                  {.program = OWN_BENCHES_PROGRAM, .folder = folder.path("")});
  CHECK(result.exit_code == 4);
  CHECK_THAT(result.err, test::Says("KB-I010", "cannot", "'own/sweeps'", "sweeps", "directory"));
}

TEST_CASE("the folder of --out takes the place of a bench's own folder", "[sweep][cli]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program({"run", "--bench", "sweeps", "--topology", "tiny", "--out", "there"},
                  {.program = OWN_BENCHES_PROGRAM, .folder = folder.path("")});
  CHECK(result.exit_code == 0);
  CHECK(folder.names() == std::vector<std::string>{"there"});
  CHECK(folder.read("there/summary.csv") == folder.read("there/report.csv"));
}

}  // namespace kernbench::test::resumed_sweep_test
