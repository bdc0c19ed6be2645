// kernbench run --fault: faults on every bench, what is said of them, and what is refused.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "test/benches/program_json.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::faults_command_test {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> kAllReduce = {
    "run",       "--bench", "collectives",  "--topology",     "zero_overhead",           "--set",
    "begin=6Ki", "end=6Ki", "pe=replicate", "cube=replicate", "algorithm=ring_allreduce"};

std::vector<std::string> with_faults(std::vector<std::string> words,
                                     const std::vector<std::string>& faults) {
  for (const std::string& fault : faults) words.insert(words.end(), {"--fault", fault});
  return words;
}

Json report_of(const std::vector<std::string>& faults, int exit_code = 0) {
  const TemporaryFolder folder;
  std::vector<std::string> words = with_faults(kAllReduce, faults);
  words.insert(words.end(), {"--json", folder.path("report.json")});
  const ProgramResult result = run_program(words);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == exit_code);
  return Json::parse(folder.read("report.json"));
}

double time_of(const Json& report) {
  return report["rows"][0]["in_place_time_ns"];
}

TEST_CASE("benches whose clock starts when all ranks have begun refuse a late start",
          "[cli][faults]") {
  for (const std::string bench : {"ddp", "pipeline", "context", "moe"}) {
    const ProgramResult refused =
        run_program({"run", "--bench", bench, "--fault", "rank=1 start=+1us"});
    CHECK(refused.exit_code == 2);
    CHECK_THAT(refused.err, Says("KB-U012", "rank=1 start=+1us"));
  }
}

TEST_CASE("a rank that is late by 50 us makes a row 50 us longer", "[cli][faults]") {
  const Json late = report_of({"rank=3 start=+50us"});
  CHECK(time_of(late) == Approx(time_of(report_of({})) + 50'000).epsilon(1e-12));
  const Json& effect = late["faults"][0];
  CHECK(effect["fault"] == "rank=3 start=+50us");
  CHECK(effect["added_ns"] == 50'000.0 * effect["count"].get<int>());
  CHECK_FALSE(effect.contains("seen"));
  CHECK_FALSE(report_of({}).contains("faults"));
}

TEST_CASE("several faults and the file's act together, and the report names each",
          "[cli][faults]") {
  const TemporaryFolder folder;
  const std::string machine = read_file(KERNBENCH_ROOT "/topologies/zero_overhead.yaml");
  folder.write("slow.yaml", machine + "faults: [link=sip0.link.east bandwidth=x0.5]\n");
  std::vector<std::string> words = with_faults(kAllReduce, {"link=sip1.east bandwidth=x0.25"});
  words[4] = folder.path("slow.yaml");
  const ProgramResult result = run_program(words);
  CHECK(result.exit_code == 0);
  for (const char* line : {"#   fault         link=sip0.link.east bandwidth=x0.5\n",
                           "#   fault         link=sip1.east bandwidth=x0.25\n",
                           "#   fault         link=sip0.link.east bandwidth=x0.5: ",
                           "#   fault         link=sip1.east bandwidth=x0.25: "}) {
    CHECK_THAT(result.out, Catch::Contains(line));
  }
}

TEST_CASE("a flip is found by the bench's check, or told to be unseen", "[cli][faults]") {
  const Json found = report_of({"rank=1 flip=30 element=3 message=1"}, 1);
  CHECK(found["ok"] == false);
  CHECK(found["faults"][0]["seen"] == true);
  const std::vector<std::string> step = {"run",  "--bench", "tp-mlp", "--topology",
                                         "tiny", "--set",   "tp=2"};
  const ProgramResult unseen = run_program(with_faults(step, {"rank=0 flip=0 element=0 result=1"}));
  CAPTURE(unseen.out, unseen.err);
  CHECK(unseen.exit_code == 0);
  CHECK_THAT(unseen.out, Catch::Contains("no check has seen it"));
}

TEST_CASE("a dead link ends a run with the code of a deadlock, and names link and instant",
          "[cli][faults][errors]") {
  const ProgramResult result =
      run_program(with_faults(kAllReduce, {"link=sip0.link.east dead=1us"}));
  CHECK(result.exit_code == 20);
  CHECK_THAT(result.err, Says("KB-D001", "fault: link=sip0.link.east dead=1us", "first at",
                              "from sip0 to sip1 are lost"));
}

TEST_CASE("a wrong fault is refused before anything runs", "[cli][faults][errors]") {
  const auto refusal_of = [](const std::string& fault, int exit_code) {
    const ProgramResult result = run_program(with_faults(kAllReduce, {fault}));
    CHECK(result.exit_code == exit_code);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK_THAT(refusal_of("rank=3 strat=1us", 2), Says("KB-U012", "--fault", "'start'"));
  CHECK_THAT(refusal_of("link=sip0.eats dead=1us", 3), Says("KB-Y051", "'sip0.east'"));
  CHECK_THAT(refusal_of("rank=4 dies=1us", 3), Says("KB-Y051", "0 to 3"));
}

TEST_CASE("a fault in a file is refused where it stands", "[cli][faults][errors]") {
  const TemporaryFolder folder;
  const std::string machine = read_file(KERNBENCH_ROOT "/topologies/zero_overhead.yaml");
  folder.write("wrong.yaml", machine + "faults: [rank=1 start=1us, rank=1 start=1]\n");
  const ProgramResult result =
      run_program({"run", "--bench", "collectives", "--topology", folder.path("wrong.yaml")});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, Says("KB-Y050", "start=1", "needs a unit"));
}

TEST_CASE("a grid of faults is one of --set", "[cli][faults]") {
  std::vector<std::string> words = kAllReduce;
  words.insert(words.end(), {"faults=rank=1 start=10us;rank=1 start=20us", "--json", "-"});
  const Json rows = json_of(words)["rows"];
  REQUIRE(rows.size() == 2);
  CHECK(rows[1]["in_place_time_ns"].get<double>() - rows[0]["in_place_time_ns"].get<double>() ==
        Approx(10'000));
}

}  // namespace
}  // namespace kernbench::test::faults_command_test
