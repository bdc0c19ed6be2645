// The bench `pipeline`: bubbles and peaks of schedules.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>

#include "test/benches/program_json.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::pipeline_bench_test {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> command(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run",     "--bench", "pipeline", "--topology",
                                    "tiny",    "--set",   "layers=4", "hidden=64",
                                    "heads=2", "seq=32",  "stages=2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json rows_of(std::vector<std::string> words, const std::string& table) {
  words.insert(words.end(), {"--json", "-"});
  Json found = Json::array();
  const Json all = json_of(words)["rows"];
  for (const Json& row : all) {
    if (row["table"] == table) found.push_back(row);
  }
  return found;
}

TEST_CASE("a row has the bubble in both definitions, beside its formulas", "[cli][pipeline]") {
  const std::vector<std::string> words =
      command({"microbatches=4,8", "schedule=gpipe,1f1b,interleaved"});
  const Json rows = rows_of(words, "step");
  REQUIRE(rows.size() == 6);
  for (const Json& row : rows) {
    CAPTURE(row.dump());
    const double step = row["step_ns"];
    const double ideal = row["ideal_ns"];
    // Stages are alike but for the loss, and the means are over the second one alone.
    const double stages = row["stages"].get<double>() / 2;
    const double mean = row["forward_ns"].get<double>() + row["backward_ns"].get<double>();
    CHECK(ideal == Approx(row["microbatches"].get<double>() * stages * mean).epsilon(0.1));
    CHECK(row["bubble_of_ideal"] == (step - ideal) / ideal);
    CHECK(row["bubble_of_step"] == (step - ideal) / step);
    const double work = row["microbatches"].get<double>() * row["stages"].get<double>() / 2;
    CHECK(row["formula_of_ideal"] == 1 / work);
    CHECK(row["formula_of_step"] == 1 / (work + 1));
    // Messages take time beside what the formula has.
    CHECK(row["bubble_of_ideal"] > row["formula_of_ideal"]);
  }
  const auto step_of = [&](std::size_t i) { return rows[i]["step_ns"].get<double>(); };
  CHECK(rows[4]["schedule"] == "interleaved");
  CHECK(step_of(4) < step_of(0));
  CHECK(step_of(4) < step_of(2));
}

TEST_CASE("ranks keep what their schedule says", "[cli][pipeline]") {
  const Json rows = rows_of(command({"microbatches=6"}), "rank");
  std::vector<int> peaks;
  std::vector<int> weights;
  for (const Json& row : rows) {
    peaks.push_back(row["peak_forwards"]);
    weights.push_back(row["peak_weights"]);
  }
  REQUIRE(rows.size() == 10);
  CHECK(rows[6]["schedule"] == "zb_h1");
  CHECK(rows[8]["schedule"] == "zbv");
  CHECK(peaks == std::vector<int>{6, 6, 2, 1, 5, 3, 2, 1, 4, 4});
  CHECK(weights == std::vector<int>{0, 0, 0, 0, 0, 0, 1, 2, 1, 3});
  CHECK(rows[2]["peak_bytes"] < rows[0]["peak_bytes"]);
}

// Backward reads of a block its input x, the first norm's output, query, key, value, what attention
// makes of them, its sum with x and the second norm's output; of four times the size the input and
// the output of gelu; and attention a number for each head and token.  These are `all` bytes, of
// which the stage's input is `input`; the first stage is given one that is no activation.  With
// more micro-batches than stages there is a steady state, in which the input of the next one
// arrives meanwhile.
TEST_CASE("1F1B keeps the activations of min(m, p - s) micro-batches, to the byte",
          "[cli][pipeline][memory]") {
  const int count = GENERATE(2, 8);
  const std::int64_t input = 256 * 64 * 4;
  const std::int64_t all = (8 + 2 * 4) * input + 2 * 256 * 4;
  const Json rows = rows_of(
      {"run", "--bench", "pipeline", "--topology", "tiny", "--set", "schedule=1f1b", "layers=4",
       "hidden=64", "heads=2", "seq=256", "stages=4", "microbatches=" + std::to_string(count)},
      "rank");
  REQUIRE(rows.size() == 4);
  const auto kept_by = [&](std::size_t stage) {
    return rows[stage]["peak_activation_bytes"].get<std::int64_t>();
  };
  const auto micro_batches = [&](int stage) { return std::min(count, 4 - stage); };
  CHECK(kept_by(0) == micro_batches(0) * (all - input));
  for (int stage = 1; stage < 4; ++stage) {
    CAPTURE(count, stage, all);
    CHECK(kept_by(static_cast<std::size_t>(stage)) ==
          micro_batches(stage) * all + (count > 4 ? input : 0));
  }
}

// The first stage's input has no gradient, so that its I is empty and does not count.
TEST_CASE("halves of backward have their times, and fill the bubble", "[cli][pipeline]") {
  const TemporaryFolder folder;
  std::vector<std::string> words =
      command({"schedule=1f1b,zb_h1,zb_h2,interleaved_zb,dual_pipe_v"});
  words.insert(words.end(), {"--out", folder.path("out")});
  const Json rows = rows_of(words, "step");
  const Json actions = rows_of(words, "action");
  REQUIRE(rows.size() == 5);
  CHECK(rows[0]["weight_ns"].is_null());
  CHECK(rows[0]["input_ns"].is_null());
  CHECK(rows[1]["backward_ns"].is_null());
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CAPTURE(rows[i].dump());
    CHECK(rows[i]["step_ns"] < rows[0]["step_ns"]);
  }
  const double f = rows[1]["forward_ns"];
  const double input = rows[1]["input_ns"];
  const double weight = rows[1]["weight_ns"];
  const double whole = f + input + weight;
  CHECK(rows[1]["formula_of_ideal"].get<double>() ==
        Approx((input + std::max(0.0, f - weight)) / (8 * whole)).epsilon(1e-12));
  CHECK(rows[2]["formula_of_ideal"].get<double>() > 0);
  CHECK(rows[4]["formula_of_ideal"].is_null());
  double sum = 0;
  int count = 0;
  for (const Json& row : actions) {
    const double time = row["end_ns"].get<double>() - row["begin_ns"].get<double>();
    CHECK(time >= 0);
    const std::string action = row["action"];
    if (row["schedule"] != "zb_h1" || !action.starts_with("1I")) continue;
    sum += time;
    ++count;
  }
  CHECK(count == 8);
  CHECK(sum / count == Approx(input).epsilon(1e-12));
}

TEST_CASE("--out has a picture with each rank's computations", "[cli][pipeline]") {
  const TemporaryFolder folder;
  std::vector<std::string> words = command({"schedule=zb_h1", "microbatches=2"});
  words.insert(words.end(), {"--out", folder.path("out")});
  REQUIRE(run_program(words).exit_code == 0);
  const std::string svg = folder.read("out/schedules.svg");
  for (const std::string_view text :
       {">zb_h1, 2 stages, 2 micro-batches: ", ">rank 1</text>", "I, for the input"}) {
    CHECK(svg.find(text) != std::string::npos);
  }
}

TEST_CASE("a file of actions is a schedule", "[cli][pipeline]") {
  const TemporaryFolder folder;
  const std::string file = folder.write("v.csv", "0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n");
  CHECK(run_program(command({"actions=" + file})).exit_code == 2);  // its stages are the file's
  std::vector<std::string> with_actions = command({"actions=" + file});
  std::erase(with_actions, "stages=2");
  const Json rows = rows_of(with_actions, "rank");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["schedule"] == "actions");
  CHECK(rows[0]["stages_of_rank"] == "0,3");
  CHECK(rows[1]["stages_of_rank"] == "1,2");
  for (const std::string wrong : {"", "\n\n", ",\n,\n", "0F0,0B0\n\n1F0,1B0\n", "2147483647F0\n"}) {
    folder.write("v.csv", wrong);
    const ProgramResult refused = run_program(with_actions);
    CHECK(refused.exit_code == 21);
    CHECK_THAT(refused.err, Says("KB-C024"));
  }
  folder.write("v.csv", "0B0,0F0\n1F0,1B0\n");
  const ProgramResult hung = run_program(with_actions);
  CHECK(hung.exit_code == 20);
  CHECK_THAT(hung.err, Says("KB-D005", "0B0 waits for 0F0"));
}

TEST_CASE("formulas are left out where they do not hold", "[cli][pipeline]") {
  for (const std::string more : {"microbatches=1", "microbatches=2"}) {
    for (const Json& row : rows_of(command({more, "schedule=1f1b,zb_h1,zb_h2"}), "step")) {
      CAPTURE(row.dump());
      const bool holds =
          row["schedule"] == "1f1b" || (more == "microbatches=2" && row["schedule"] == "zb_h1");
      CHECK(row["formula_of_ideal"].is_null() == !holds);
    }
  }
}

TEST_CASE("a schedule that does not fit is left out of a sweep, and refused alone",
          "[cli][pipeline]") {
  const ProgramResult both = run_program(command({"microbatches=3", "schedule=1f1b,dual_pipe_v"}));
  CHECK(both.exit_code == 0);
  CHECK(both.out.find("DualPipeV requires at least as many microbatches as stages") !=
        std::string::npos);
  const ProgramResult alone = run_program(command({"microbatches=3", "schedule=dual_pipe_v"}));
  CHECK(alone.exit_code == 2);
  CHECK_THAT(alone.err, Says("KB-U012", "no schedule fits", "DualPipeV requires"));
}

TEST_CASE("layers that stages do not divide are refused", "[cli][pipeline]") {
  const ProgramResult refused = run_program(command({"stages=3", "schedule=1f1b"}));
  CHECK(refused.exit_code == 2);
  const ProgramResult layers = run_program(command({"chunks=3", "schedule=interleaved"}));
  CHECK(layers.exit_code == 2);
  CHECK_THAT(layers.err, Says("KB-U012", "4 layers are not divided by 6 stages of interleaved"));
}

}  // namespace
}  // namespace kernbench::test::pipeline_bench_test
