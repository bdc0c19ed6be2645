// The bench `stragglers`: slowdowns by kind and by worker, and the three situations.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "benches/stragglers/attribution.h"
#include "test/benches/program_json.h"
#include "test/support/error_text.h"

namespace kernbench::test::stragglers_bench_test {
namespace {

using benches::stragglers::Attribution;
using Json = nlohmann::ordered_json;

std::vector<Fault> faults_of(const std::vector<std::string>& texts) {
  std::vector<Fault> faults;
  for (const std::string& text : texts) faults.push_back(parse_fault(text).fault);
  return faults;
}

// A step of 100 ns to which a rank's fault of clock adds 10 ns times its number, and a link's 5.
Time made_up_step(const std::vector<Fault>& faults) {
  Time time{100'000};
  for (const Fault& fault : faults) {
    time += fault.kind == Fault::Kind::clock ? Time{10'000 * fault.rank} : Time{5'000};
  }
  return time;
}

TEST_CASE("a slowdown is split by simulating the step with a part of its faults", "[stragglers]") {
  int steps = 0;
  const Attribution found = benches::stragglers::attribute(
      faults_of({"rank=1 clock=x0.5", "rank=3 clock=x0.5", "link=sip3.link.east bandwidth=x0.5"}),
      [&](const std::vector<Fault>& faults) {
        ++steps;
        return made_up_step(faults);
      });
  CHECK(found.actual == Time{145'000});
  CHECK(found.ideal == Time{100'000});
  CHECK(found.computing_alone == Time{140'000});
  CHECK(found.links_alone == Time{105'000});
  CHECK(found.worst == 3);
  CHECK(found.worst_alone == Time{135'000});
  CHECK(found.without_worst == Time{110'000});
  CHECK(found.slowdown(found.actual) == 1.45);
  CHECK(found.removed_share() == Approx(35.0 / 45));
  CHECK(steps == 6);  // rank 1 alone is all without rank 3
}

TEST_CASE("noise of all ranks is that of each", "[stragglers]") {
  const auto of_each = benches::stragglers::by_worker(
      faults_of({"compute=normal sigma=0.1", "rank=2 clock=x0.5"}), 4);
  std::vector<int> ranks;
  for (const Fault& fault : of_each) ranks.push_back(fault.rank);
  CHECK(ranks == std::vector<int>{0, 1, 2, 3, 2});
}

std::vector<std::string> command(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run",       "--bench", "stragglers", "--topology",
                                    "tiny",      "--set",   "world=2",    "layers=1",
                                    "hidden=64", "heads=2", "vocab=64",   "seq=16"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json rows_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-"});
  return json_of(words)["rows"];
}

TEST_CASE("each scheme is slower by its faults, and a lone fault is all of it",
          "[cli][stragglers]") {
  const Json rows = rows_of(command({"situations=0"}));
  CHECK(rows.size() == 16);
  for (const Json& row : rows) {
    CAPTURE(row.dump());
    CHECK(row["slowdown"] == row["step_ns"].get<double>() / row["ideal_ns"].get<double>());
    if (row["scenario"] != "slow rank") continue;
    CHECK(row["slowdown"] > 1);
    CHECK(row["slowdown"] == row["slowdown_of_computing"]);
    CHECK(row["slowdown_of_links"] == 1);
    CHECK(row["worst"] == 1);
    CHECK(row["removed_by_worst"] == 1);
  }
}

TEST_CASE("faults that are given are the scenario", "[cli][stragglers]") {
  const Json rows =
      rows_of(command({"scheme=ddp", "situations=0", "--fault", "link=sip1.east bandwidth=x0.1"}));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["faults"] == "link=sip1.east bandwidth=x0.1");
  CHECK(rows[0]["slowdown_of_computing"] == 1);
  const ProgramResult dead = run_program(command({"--fault", "rank=1 dies=1us"}));
  CHECK(dead.exit_code == 2);
  CHECK_THAT(dead.err, Says("KB-U012", "'rank=1 dies=1us'"));
}

// Published (arXiv 2505.05713): a slow worker M_w 1.0017; unequal sequences M_w .025, M_s .688; a
// heavy last stage S 1.179, M_s 1.219.
TEST_CASE("three situations of stragglers have the shape that is published", "[cli][stragglers]") {
  const Json rows = rows_of(command({"scheme=tp"}));
  REQUIRE(rows.size() == 4 + 3);
  const Json& slow = rows[4];
  CHECK(slow["slowdown"] > 1.5);
  CHECK(slow["worst"] == 6);
  CHECK(slow["removed_by_worst"].get<double>() == Approx(1).margin(.05));
  CHECK(slow["removed_by_last_stage"].get<double>() == Approx(0).margin(.05));
  const Json& sequences = rows[5];
  CHECK(sequences["slowdown"] > 1.2);
  CHECK(sequences["removed_by_worst"].get<double>() < .05);
  CHECK(sequences["removed_by_last_stage"].get<double>() < 1);
  const Json& last = rows[6];
  CHECK(last["slowdown"].get<double>() > 1.05);
  CHECK(last["removed_by_worst"].get<double>() < .05);
  CHECK(last["removed_by_last_stage"].get<double>() > 1);
}

}  // namespace
}  // namespace kernbench::test::stragglers_bench_test
