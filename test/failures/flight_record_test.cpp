// The file that a failing run leaves.

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "test/benches/program_under_test.h"

namespace kernbench::test::flight_record_test {
namespace {

using nlohmann::json;

ProgramResult run_with(const std::string& recorder, const TemporaryFolder& folder) {
  return run_program({"A10-missing"}, {.folder = folder.path(""),
                                       .cpu_limit_s = 10,
                                       .environment = {{"KERNBENCH_FLIGHT_RECORDER", recorder}}});
}

TEST_CASE("the record has what each rank called, and how far it came", "[flight_recorder]") {
  const TemporaryFolder folder;
  run_program({"A10-missing"}, {.folder = folder.path(""), .cpu_limit_s = 10});
  const json record = json::parse(folder.read("kb-fr-KB-C002.json"));
  CHECK(record["kernbench_flight_record"] == 1);
  CHECK(record["code"] == "KB-C002");
  CHECK(record["time_ps"] == 0);
  REQUIRE(record["ranks"].size() == 4);
  for (int rank = 0; rank < 4; ++rank) {
    const json& own = record["ranks"][static_cast<std::size_t>(rank)];
    CHECK(own["rank"] == rank);
    REQUIRE(own["events"].size() <= 4);
    for (const json& event : own["events"]) {
      CHECK(event["function"] == "all_reduce");
      CHECK(event["sizes"] == json::array({4}));
      CHECK(event["dtype"] == "f32");
      CHECK(event["reduce_op"] == "SUM");
      // Nobody gets beyond the call of #3, as rank 1 has left already.
      CHECK(event["state"] == (event["sequence"] < 3 ? "completed" : "issued"));
      CHECK(event["at"].get<std::string>().starts_with("collective_cases.cpp:"));
    }
  }
  CHECK(record["ranks"][1]["recorded"] == 3);
}

TEST_CASE("a message has its peer and its tag", "[flight_recorder]") {
  const TemporaryFolder folder;
  run_program({"A1-receive-first"}, {.folder = folder.path(""), .cpu_limit_s = 10});
  const json record = json::parse(folder.read("kb-fr-KB-D001.json"));
  const json& event = record["ranks"][2]["events"][0];
  CHECK(event["function"] == "recv");
  CHECK(event["peer"] == 1);
  CHECK(event["tag"] == 0);
  CHECK(event["state"] == "issued");
  CHECK(event["async"] == false);
}

TEST_CASE("a folder may be given, or none at all", "[flight_recorder]") {
  const TemporaryFolder folder;
  const TemporaryFolder records;
  const ProgramResult elsewhere = run_with(records.path(""), folder);
  CHECK(folder.names().empty());
  CHECK(records.names() == std::vector<std::string>{"kb-fr-KB-C002.json"});
  CHECK(elsewhere.err.find("kernbench: flight record: " + records.path("kb-fr-KB-C002.json")) !=
        std::string::npos);
  run_with(records.path("made/here"), folder);
  CHECK(std::filesystem::exists(records.path("made/here/kb-fr-KB-C002.json")));
  const ProgramResult off = run_with("off", folder);
  CHECK(folder.names().empty());
  CHECK(off.err.find("flight record") == std::string::npos);
  CHECK(off.exit_code == elsewhere.exit_code);
}

TEST_CASE("a record that cannot be written changes nothing else", "[flight_recorder]") {
  const TemporaryFolder folder;
  const ProgramResult result = run_with("/dev/null/folder", folder);
  CHECK(result.exit_code == 21);
  CHECK(result.err.find("kernbench: warning: [KB-I012] cannot write the flight record "
                        "/dev/null/folder/kb-fr-KB-C002.json\n") != std::string::npos);
  CHECK(folder.names().empty());
}

}  // namespace
}  // namespace kernbench::test::flight_record_test
