// A bench outside the project, through the registry and the same command line.

#include <catch2/catch.hpp>

#include "test/benches/program_json.h"
#include "test/support/error_text.h"

namespace kernbench::test::own_benches_test {

using Catch::Contains;
using Catch::StartsWith;
using Json = nlohmann::ordered_json;

namespace {

ProgramResult run_own(const std::string& bench, std::vector<std::string> more = {},
                      double interrupt_after_s = -1) {
  std::vector<std::string> arguments = {"run", "--bench", bench, "--topology", "tiny"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments,
                     {.program = OWN_BENCHES_PROGRAM, .interrupt_after_s = interrupt_after_s});
}

}  // namespace

TEST_CASE("a user's bench has the same command line", "[own_benches]") {
  const ProgramResult listed = run_program({"list"}, {.program = OWN_BENCHES_PROGRAM});
  CHECK_THAT(listed.out, Contains("own-rows") && Contains("factor=2"));
  CHECK_THAT(listed.out, !Contains("ccl-allreduce"));

  const Json report = json_of(run_own("own-rows", {"--json", "-", "--set", "factor=5"}));
  CHECK(report["bench"] == "own-rows");
  CHECK(report["rows"][1] == Json::parse(R"({"name": "run \"1\", again", "value": 5})"));
  CHECK(report["rows"][2] == Json::parse(R"({"name": "last", "extra": 0.5, "nothing": null})"));
}

TEST_CASE("a bench that prints nothing has its rows printed", "[own_benches]") {
  const ProgramResult result = run_own("own-rows");
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("#            name  value  extra  nothing\n"
                                  "   run \"0\", again      0      -        -\n"));
}

TEST_CASE("KERNBENCH_DEBUG hints at probable mistakes", "[own_benches]") {
  const auto errors_of = [](const std::string& bench, bool is_set) {
    ProgramOptions options{.program = OWN_BENCHES_PROGRAM};
    if (is_set) options.environment = {{"KERNBENCH_DEBUG", "1"}};
    return run_program({"run", "--bench", bench, "--topology", "tiny"}, options).err;
  };
  CHECK_THAT(errors_of("asks-for-its-rank", true),
             Contains("kernbench: warning: get_rank() outside a rank returns 0"));
  CHECK_THAT(errors_of("own-rows", true),
             Contains("kernbench: hint: copy_ into tensor '") &&
                 Contains("[1, 64] makes 2 transfers: without a `dp` it has a copy on each PE"));
  CHECK(errors_of("asks-for-its-rank", false).find("warning") == std::string::npos);
  CHECK(errors_of("own-rows", false).find("hint") == std::string::npos);
}

TEST_CASE("statistics are summed over all systems of a bench", "[own_benches]") {
  const Json engine = Json::parse(run_own("own-rows", {"--json", "-"}).out)["engine"];
  // Each tensor has two copies of 256 B.  The first comes over the host link and one hop to the HBM
  // of cube 0: 500 + 4 + 16 + 120 ns.  The second leaves the IO chiplet for cube 1 then.
  CHECK(engine["events"] == 2 * 2);
  CHECK(engine["simulated_ns"] == Approx(2 * (640 + 16 + 16 + 120 + 2.778)));
  CHECK(engine["busiest_unit"] == nullptr);  // no kernel ran
  CHECK_THAT(run_own("own-rows").out, Contains("#   busiest unit  none\n"));
}

TEST_CASE("the folder of --out holds the report and the bench's files", "[own_benches]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_own("own-rows", {"--out", folder.path("a/b")});
  REQUIRE(result.exit_code == 0);
  CHECK(folder.read("a/b/notes.txt") == "from own-rows\n");
  CHECK(folder.read("a/b/report.csv") ==
        "name,value,extra,nothing\r\n"
        "\"run \"\"0\"\", again\",0,,\r\n"
        "\"run \"\"1\"\", again\",2,,\r\n"
        "last,,0.5,\r\n");
  const Json report = Json::parse(folder.read("a/b/report.json"));
  CHECK(report["artifacts"] == Json::array({folder.path("a/b/notes.txt")}));
}

TEST_CASE("each kind of failure has its exit code and says what it is", "[own_benches][errors]") {
  const auto [bench, exit_code, text] =
      GENERATE(Catch::Generators::table<std::string, int, std::string>({
          {"fails-its-check", 1, ""},
          {"deadlocks", 21, "kernbench: error: [KB-C002] "},
          {"worker-raises", 1, "kernbench: error: [KB-R001] -- Process 0 terminated"},
          {"worker-has-no-memory", 71,
           "kernbench: error: [KB-L002] out of memory: Process 0 terminated "},
          {"has-no-memory", 71, "kernbench: error: [KB-L002] out of memory\n"},
          {"breaks-an-invariant", 70, "kernbench: error: [KB-X001] internal check failed: "},
      }));
  CAPTURE(bench);
  const ProgramResult result = run_own(bench);
  CHECK(result.exit_code == exit_code);
  CHECK_THAT(result.err, StartsWith(text));
  CHECK(run_own(bench).err == result.err);
}

TEST_CASE("a row that fails its check makes the report not ok", "[own_benches][errors]") {
  const ProgramResult result = run_own("fails-its-check", {"--json", "-"});
  CHECK(result.exit_code == 1);
  CHECK(Json::parse(result.out)["ok"] == false);
  CHECK_THAT(result.err, Contains("kernbench: error: [KB-B003] row 0: its check failed\n"));
}

TEST_CASE("a bench that submits no work is refused", "[own_benches][errors]") {
  const ProgramResult unused = run_own("submits-nothing", {"--json", "-"});
  CHECK(unused.exit_code == 1);
  CHECK(unused.out.empty());
  CHECK_THAT(unused.err,
             test::Says("KB-B001", "'submits-nothing'", "submits", "submitted", "contexts"));
  const ProgramResult none = run_own("makes-nothing");
  CHECK(none.exit_code == 1);
  CHECK_THAT(none.err, test::Says("KB-B001", "'makes-nothing'", "nothing", "submitted", "context"));
}

TEST_CASE("a bug of kernbench asks for a report, with the command", "[own_benches][errors]") {
  const ProgramResult result = run_own("breaks-an-invariant", {"--seed", "7"});
  CHECK_THAT(result.err, Contains("the seed is 7") && Contains("please report") &&
                             Contains("reproduce: kernbench run --bench breaks-an-invariant "
                                      "--topology tiny --seed 7\n"));
}

TEST_CASE("an interrupted run keeps what was finished", "[own_benches][errors]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_own("never-ends", {"--json", folder.path("r.json"), "--out", folder.path("out")}, 0.5);
  CHECK(result.exit_code == 130);
  CHECK_THAT(result.err, StartsWith("kernbench: error: [KB-S001] interrupted"));
  const Json report = Json::parse(folder.read("r.json"));
  CHECK(report["ok"] == false);
  CHECK(report["rows"] == Json::parse(R"([{"finished": 1}])"));
  CHECK(folder.names() == std::vector<std::string>{"out", "r.json"});
}

TEST_CASE("a run that failed tells how far it came", "[own_benches][errors]") {
  const ProgramResult result = run_own("deadlocks");
  for (const char* part : {"#   simulated ", " events\n", "#   wall ", "#   fingerprint "}) {
    CHECK_THAT(result.out, Contains(part));
  }
}

TEST_CASE("a trace is written of a run that failed too", "[own_benches][errors]") {
  const TemporaryFolder folder;
  CHECK(run_own("deadlocks", {"--trace", folder.path("t.json")}).exit_code == 21);
  CHECK(Json::parse(folder.read("t.json")).contains("traceEvents"));
}

TEST_CASE("a trace for each system of a bench", "[own_benches]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_own("own-rows", {"--trace", folder.path("t.json"), "--json", "-"});
  CHECK(folder.names() == std::vector<std::string>{"t-2.json", "t.json"});
  CHECK(Json::parse(result.out)["artifacts"] ==
        Json::array({folder.path("t.json"), folder.path("t-2.json")}));
}

}  // namespace kernbench::test::own_benches_test
