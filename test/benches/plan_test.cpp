// `kernbench plan`: the best plans by their layers are those of runs with all layers.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "test/benches/program_json.h"

namespace kernbench::test::plan_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

const Words kModel = {"layers=6", "heads=2", "vocab=64", "seq=16", "pp=1"};

Words command(const Words& more, const std::string& world = "4") {
  Words words = {"plan",           "--world",          world,
                 "--set",          "hidden=64",        "checkpoint=none",
                 "microbatches=1", "bucket_cap_mb=1,2"};
  words.insert(words.end(), kModel.begin(), kModel.end());
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Words behind which `keys` come, and of the others those that they do not have.
Words with_keys(Words words, const Words& keys, const Words& others) {
  words.insert(words.end(), keys.begin(), keys.end());
  for (const std::string& each : others) {
    const std::string key = each.substr(0, each.find('=') + 1);
    const auto has_key = [&](const std::string& word) { return word.starts_with(key); };
    if (std::ranges::none_of(keys, has_key)) words.push_back(each);
  }
  return words;
}

// The rows of plans, the best first.
std::vector<Json> plans_of(Words words) {
  words.insert(words.end(), {"--json", "-"});
  std::vector<Json> plans;
  const Json report = json_of(words);
  for (const Json& row : report["rows"]) {
    if (row["table"] == "plan") plans.push_back(row);
  }
  REQUIRE(!plans.empty());
  return plans;
}

// All plans, run with all layers too.
std::vector<Json> plans_both_ways(const Words& keys, const std::string& world) {
  Words words = {"plan", "--world", world,      "--topology",
                 "tiny", "--set",   "full=999", "exhaustive=true"};
  return plans_of(with_keys(std::move(words), keys, kModel));
}

// Steps by layers are that near to full runs, and the first one by layers within 1 % of the first.
void check_by_layers(const std::vector<Json>& plans, double within = 0.03) {
  const Json* best_by_layers = &plans.front();
  double previous = 0;
  for (const Json& plan : plans) {
    CAPTURE(plan.dump());
    CHECK(plan["by"] == "run");
    const double step = plan["step_ns"];
    CHECK(plan["by_layers_ns"].get<double>() == Approx(step).epsilon(within));
    CHECK(step >= previous);
    previous = step;
    if (plan["by_layers_ns"] < (*best_by_layers)["by_layers_ns"]) best_by_layers = &plan;
  }
  CHECK((*best_by_layers)["step_ns"].get<double>() <=
        1.01 * plans.front()["step_ns"].get<double>());
}

// Layers fill buckets, or one bucket has all: a layer adds the same to each step then.
TEST_CASE("plans by their layers are those of full runs where layers fill buckets", "[cli][plan]") {
  const std::vector<Json> plans =
      plans_both_ways({"hidden=256", "bucket_cap_mb=1", "checkpoint=none", "microbatches=1"}, "4");
  CHECK(plans.size() == 3 + 2);  // tp 1; tp 2 without fsdp2; two heads have no tp 4
  check_by_layers(plans);
}

// Two models, and three machines: launches take their time, links do, or HBM does.  A pass of four
// is the same as one of three, and so is a layer of six as one of four, recomputed or not.
TEST_CASE("plans by their layers and passes are those of full runs", "[cli][plan][exhaustive]") {
  Words keys = {"hidden=32", "bucket_cap_mb=100", "batch=16"};
  const Words others =
      GENERATE(Words{"model=gpt", "microbatches=1,4", "checkpoint=none,all"},
               Words{"model=llama", "microbatches=1,4", "checkpoint=all",
                     "system.host_link.issue=100ns", "system.sip_link.bandwidth=16GB/s"},
               Words{"model=gpt", "microbatches=4", "checkpoint=none,all",
                     "system.host_link.issue=100ns", "cube.hbm.bandwidth=16GB/s"});
  keys.insert(keys.end(), others.begin(), others.end());
  const std::vector<Json> plans = plans_both_ways(keys, "4");
  const bool has_all = others.front() == "model=gpt" && others.size() == 3;
  CHECK(plans.size() == (3 + 2) * 2 * (has_all ? 2 : 1));
  check_by_layers(plans);
}

// A program of events knows when each computation ends, so a composed step has its bubble.
void check_composed(const std::vector<Json>& plans) {
  check_by_layers(plans, 0.01);
  for (const Json& plan : plans) {
    CAPTURE(plan.dump());
    const double bubble = plan["bubble"];
    CHECK(bubble > 0);
    CHECK(bubble < 1);
    CHECK(std::abs(plan["by_layers_bubble"].get<double>() - bubble) < 0.01);
  }
}

// Stages are run for themselves, and a program of events puts them together.
TEST_CASE("pipelines by their stages are those of full runs", "[cli][plan]") {
  const Words keys = GENERATE(
      Words{"model=gpt"},
      Words{"model=llama", "system.host_link.issue=100ns", "system.sip_link.bandwidth=16GB/s"},
      Words{"model=gpt", "system.host_link.issue=100ns", "cube.hbm.bandwidth=16GB/s"});
  Words words = {"layers=8",        "hidden=32", "bucket_cap_mb=100",
                 "batch=32",        "pp=2,4",    "microbatches=4",
                 "checkpoint=none", "heads=1",   "schedule=1f1b,interleaved,zb_h1"};
  words.insert(words.end(), keys.begin(), keys.end());
  const std::vector<Json> plans = plans_both_ways(words, "8");
  CHECK(plans.size() == 2 * 3 * 2);  // dp 4 x pp 2 and dp 2 x pp 4, by ddp and zero1
  check_composed(plans);
}

// A message drains what a rank's host has launched ahead, and a stage for itself has no message.
// The ranks of dual_pipe_v run backward as a whole and in halves.
TEST_CASE("pipelines that run ahead of their devices are those of full runs", "[cli][plan]") {
  const Words keys = GENERATE(Words{"pp=4", "layers=8", "schedule=1f1b"},
                              Words{"pp=2", "layers=4", "schedule=interleaved,dual_pipe_v"});
  Words words = {"hidden=128", "heads=2",          "seq=64",         "vocab=512",
                 "batch=8",    "bucket_cap_mb=25", "microbatches=4", "checkpoint=none"};
  words.insert(words.end(), keys.begin(), keys.end());
  const std::vector<Json> plans = plans_both_ways(words, "4");
  check_composed(plans);
  if (keys.front() == "pp=2") {
    CHECK(plans.size() == 2 * 3);  // tp 1 by ddp and zero1, and tp 2
    return;
  }
  REQUIRE(plans.size() == 1);
  words.emplace_back("cube.hbm.bandwidth=102.4GB/s");  // twice as much
  const std::vector<Json> faster = plans_both_ways(words, "4");
  check_composed(faster);
  CHECK(faster[0]["step_ns"] < plans[0]["step_ns"]);
  CHECK(faster[0]["by_layers_ns"] < plans[0]["by_layers_ns"]);
}

// Arrays of one cell take a cycle for each product, on both PEs: of the second stage, with the
// vocabulary's 128 rows, three times; and of the first one before it, once for a micro-batch.
TEST_CASE("a pipeline's step is not below the products of its last stage", "[cli][plan]") {
  const std::vector<Json> plans = plans_both_ways(
      {"hidden=64", "layers=4", "batch=32", "pp=2", "heads=1", "microbatches=8", "checkpoint=none",
       "bucket_cap_mb=100", "schedule=zb_h1", "pe.gemm.rows=1", "pe.gemm.columns=1"},
      "2");
  REQUIRE(plans.size() == 1);
  constexpr double kLayers = 2 * 12 * 64 * 64;
  constexpr double kTokens = 32 * 16;
  const double products = (kLayers / 8 + 3 * (kLayers + 128 * 64)) * kTokens;
  CHECK(plans[0]["bound_ns"].get<double>() == Approx(products / (2 * 1.5)));
  CHECK(plans[0]["step_ns"] >= plans[0]["bound_ns"]);
}

// A composed peak has the messages that are under way, and all gradients: so no run needs more.
// With four micro-batches under way those have an output each.
TEST_CASE("a pipeline's run needs no more memory than its stages say", "[cli][plan]") {
  const Words keys = GENERATE(
      Words{"layers=4", "batch=16", "pp=2", "microbatches=2,4", "checkpoint=none,all",
            "schedule=1f1b,interleaved"},
      Words{"layers=8", "batch=20", "pp=4", "microbatches=5", "checkpoint=none", "schedule=1f1b"});
  Words words = {"hidden=128", "seq=64", "bucket_cap_mb=25"};
  words.insert(words.end(), keys.begin(), keys.end());
  const std::vector<Json> plans = plans_both_ways(words, "4");
  // There are tp 1 by ddp and zero1, and tp 2; or tp 1 without others.
  CHECK(plans.size() == (keys.front() == "layers=4" ? 2 * 2 * 2 * 3 : 1));
  for (const Json& plan : plans) {
    CAPTURE(plan.dump());
    CHECK(plan["by_layers_peak_bytes"] >= plan["peak_bytes"]);
  }
}

// DualPipeV wants as many micro-batches as stages, and halves of backward no checkpoints.
TEST_CASE("plans have the pipelines that their schedules take", "[cli][plan]") {
  std::vector<std::string> found;
  for (const Json& plan :
       plans_of({"plan", "--world", "2", "--topology", "tiny", "--set", "hidden=32", "heads=1",
                 "vocab=64", "seq=16", "layers=4", "batch=8", "pp=2", "microbatches=2,4", "full=0",
                 "checkpoint=none,all", "schedule=dual_pipe_v,zb_h1,1f1b", "exhaustive=true"})) {
    found.push_back(plan["schedule"].get<std::string>() + ' ' +
                    std::to_string(plan["microbatches"].get<int>()) + ' ' +
                    plan["checkpoint"].get<std::string>());
  }
  std::ranges::sort(found);
  CHECK(found == std::vector<std::string>{"1f1b 2 all", "1f1b 2 none", "1f1b 4 all", "1f1b 4 none",
                                          "dual_pipe_v 4 none", "zb_h1 2 none", "zb_h1 4 none"});
}

TEST_CASE("more micro-batches have a smaller bubble and a smaller peak", "[cli][plan]") {
  const std::vector<Json> plans =
      plans_of({"plan", "--world", "2", "--topology", "tiny", "--set", "hidden=32", "heads=1",
                "vocab=64", "seq=64", "layers=4", "batch=32", "pp=2", "microbatches=2,4,8",
                "checkpoint=none,all", "schedule=1f1b", "exhaustive=true", "full=99"});
  CHECK(plans.size() == 3 * 2);
  for (const Json& few : plans) {
    for (const Json& more : plans) {
      CAPTURE(few.dump(), more.dump());
      if (few["checkpoint"] == more["checkpoint"] && few["microbatches"] < more["microbatches"]) {
        CHECK(more["bubble"] < few["bubble"]);
        CHECK(more["peak_bytes"] < few["peak_bytes"]);
      }
      if (few["microbatches"] == more["microbatches"] && few["checkpoint"] < more["checkpoint"]) {
        CHECK(few["step_ns"] > more["step_ns"]);  // all is before none
        CHECK(few["peak_bytes"] < more["peak_bytes"]);
      }
    }
  }
}

// The samples of a rank have more activations than all else.
TEST_CASE("what is computed again takes longer and less memory, and so do micro-batches",
          "[cli][plan]") {
  const std::vector<Json> plans =
      plans_of({"plan", "--world", "2", "--topology", "tiny", "--set", "hidden=32", "heads=2",
                "vocab=64", "seq=64", "layers=4", "batch=32", "bucket_cap_mb=100", "scheme=ddp",
                "microbatches=1,2,4", "exhaustive=true", "full=0", "pp=1"});
  const auto find = [&](int tp, int microbatches, const std::string& checkpoint) -> const Json& {
    return *std::ranges::find_if(plans, [&](const Json& plan) {
      return plan["tp"] == tp && plan["microbatches"] == microbatches &&
             plan["checkpoint"] == checkpoint;
    });
  };
  const auto check_trade = [](const Json& fast, const Json& small) {
    CAPTURE(fast.dump(), small.dump());
    CHECK(fast["step_ns"] < small["step_ns"]);
    CHECK(fast["peak_bytes"] > small["peak_bytes"]);
  };
  CHECK(plans.size() == 2 * 3 * 3);
  for (const int tp : {1, 2}) {
    for (const int microbatches : {1, 2, 4}) {
      check_trade(find(tp, microbatches, "none"), find(tp, microbatches, "selective"));
      check_trade(find(tp, microbatches, "selective"), find(tp, microbatches, "all"));
    }
    for (const auto* const checkpoint : {"none", "selective", "all"}) {
      check_trade(find(tp, 1, checkpoint), find(tp, 2, checkpoint));
      check_trade(find(tp, 2, checkpoint), find(tp, 4, checkpoint));
    }
  }
}

// A plan that keeps more is faster: others are timed where that does not fit.
TEST_CASE("a plan is timed only if it may be shown", "[cli][plan]") {
  const Words words = {"plan",
                       "--world",
                       "2",
                       "--topology",
                       "tiny",
                       "--set",
                       "hidden=32",
                       "heads=1",
                       "vocab=64",
                       "seq=64",
                       "layers=4",
                       "batch=32",
                       "bucket_cap_mb=100",
                       "scheme=ddp",
                       "checkpoint=all,selective,none",
                       "microbatches=1",
                       "pp=1",
                       "full=0"};
  const std::vector<Json> plans = plans_of(words);
  REQUIRE(plans.size() == 3);
  CHECK(plans[0]["checkpoint"] == "none");
  CHECK(plans[1]["by"] == "none");
  CHECK(plans[1]["needless"] == "less is computed again, and fits");
  const std::int64_t less = plans[0]["peak_bytes"].get<std::int64_t>() - 1;
  Words with_less = words;
  with_less.insert(with_less.end(), {"--memory", std::to_string(less)});
  const std::vector<Json> others = plans_of(with_less);
  CHECK(others[0]["checkpoint"] == "selective");
  CHECK(others[0]["peak_bytes"] <= less);
  CHECK(others[1]["checkpoint"] == "none");
  CHECK(others[1]["refused"].is_string());
  CHECK(others[2]["needless"] == "less is computed again, and fits");
}

// Without others' runs the first one is measured.
TEST_CASE("the best plan is run with all layers, and others are not", "[cli][plan]") {
  const std::vector<Json> plans = plans_of(command({"--topology", "tiny", "--set", "full=1"}));
  CHECK(plans.front()["by"] == "run");
  CHECK(plans.back()["by"] == "layers");
}

TEST_CASE("a plan's step is its kernels, what they do not hide, and idle time", "[cli][plan]") {
  for (const Json& plan : plans_of(command({"--topology", "tiny"}))) {
    CAPTURE(plan.dump());
    const double sum = plan["computing_ns"].get<double>() + plan["exposed_ns"].get<double>() +
                       plan["idle_ns"].get<double>();
    CHECK(plan["step_ns"].get<double>() == Approx(sum));
  }
}

TEST_CASE("plans that do not fit are left out", "[cli][plan]") {
  std::vector<double> peaks;
  for (const Json& plan : plans_of(command({"--topology", "tiny", "--set", "full=1"})))
    peaks.push_back(plan["peak_bytes"]);
  std::ranges::sort(peaks);
  REQUIRE(peaks.front() < peaks.back());
  const double memory = peaks[peaks.size() / 2] + 1;
  const auto count = std::ranges::count_if(peaks, [&](double peak) { return peak <= memory; });
  int fitting = 0;
  for (const Json& plan : plans_of(command({"--topology", "tiny", "--memory",
                                            std::to_string(static_cast<std::int64_t>(memory))}))) {
    CAPTURE(plan.dump());
    CHECK(plan["place"].is_null() == (plan["peak_bytes"] > memory));
    CHECK(plan["place"].is_null() == plan["refused"].is_string());
    fitting += plan["place"].is_null() ? 0 : 1;
  }
  CHECK(fitting == count);
}

TEST_CASE("a question that no plan answers is refused", "[cli][plan]") {
  const auto refusal = [](const Words& more, const std::string& world = "4") {
    const ProgramResult result = run_program(command(more, world));
    CHECK(result.exit_code == 2);
    return result.err;
  };
  // There are three schemes with two caps for tp 1, and two schemes with one cap for tp 2, whose
  // gradients are below both.
  const std::string small = refusal({"--topology", "tiny", "--memory", "1MiB"});
  CHECK_THAT(small, Catch::Contains("[KB-U012] --set memory=1048576: none of 8 plans fits; the "
                                    "smallest, tp ") &&
                        Catch::Contains(" MiB more"));
  CHECK_THAT(refusal({"--memory", "much"}), Catch::Contains("--set memory: expected bytes from 1"));
  CHECK_THAT(refusal({"batch=5"}, "3"),
             Catch::Contains("no plan has 3 ranks and 5 samples: dp 3 does not divide batch, "
                             "which is 5; tp 3 does not divide heads, which is 2"));
  CHECK_THAT(refusal({}, "1"), Catch::Contains("--set world: 1 not in [2, 1024]"));
}

TEST_CASE("a refusal names each axis that has no plan", "[cli][plan]") {
  const auto refusal = [](const Words& more) {
    const ProgramResult result = run_program(
        with_keys({"plan", "--world", "2", "--topology", "tiny", "--set"}, more,
                  {"pp=2", "heads=1", "seq=16", "layers=4", "hidden=32", "microbatches=2"}));
    CHECK(result.exit_code == 2);
    const std::size_t begin = result.err.find("samples: ");
    REQUIRE(begin != std::string::npos);
    return result.err.substr(begin + 9, result.err.find('\n') - begin - 9);
  };
  CHECK(refusal({"pp=3"}) == "pp 3 does not divide world, which is 2");
  CHECK(refusal({"microbatches=3", "batch=4"}) ==
        "3 micro-batches do not divide the samples of a rank with tp 1 x pp 2, which are 4");
  CHECK(refusal({"layers=3", "schedule=1f1b"}) ==
        "2 stages, of 1f1b with pp 2, do not divide layers, which is 3");
  CHECK(refusal({"microbatches=1"}) == "pp 2 wants several micro-batches");
  CHECK(refusal({"schedule=dual_pipe_v", "scheme=ddp"}) ==
        "dual_pipe_v of pp 2 does not take 2 micro-batches");
  CHECK(refusal({"schedule=zb_h1", "scheme=ddp", "checkpoint=all"}) ==
        "zb_h1 of pp 2 has halves of backward, and so no checkpoint=all");
  CHECK(refusal({"scheme=zero1"}) == "dp 1 has ddp, not zero1");
  CHECK(refusal({"scheme=fsdp2"}) == "pp 2 has ddp or zero1, not fsdp2");
  CHECK(refusal({"pp=1", "heads=2", "scheme=fsdp2", "batch=4", "microbatches=4"}) ==
        "4 micro-batches do not divide the samples of a rank with tp 1 x pp 1, which are 2; "
        "dp 1 has ddp, not fsdp2");
  CHECK(refusal({"pp=1", "heads=2", "batch=3", "seq=9", "microbatches=3"}) ==
        "dp 2 does not divide batch, which is 3; tp 2 does not divide the number of tokens, "
        "which is 27");
  CHECK_THAT(run_program({"plan", "--set", "checkpoint=2"}).err,
             Catch::Contains("[KB-U012] --set checkpoint=2: a plan's layers are alike"));
}

}  // namespace
}  // namespace kernbench::test::plan_test
