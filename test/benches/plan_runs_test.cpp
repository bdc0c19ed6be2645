// `kernbench plan` leaves out runs whose figures it knows, and what decides no time.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "test/benches/program_json.h"

namespace kernbench::test::plan_runs_test {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

const Words kKeys = {"hidden=64", "heads=2", "vocab=64"};

// The rows of a report's tables.
std::vector<Json> rows_of(Words words, const Words& keys, const Words& tables) {
  words.insert(words.end(), {"--topology", "tiny", "--fold", "near", "--json", "-", "--set"});
  words.insert(words.end(), kKeys.begin(), kKeys.end());
  words.insert(words.end(), keys.begin(), keys.end());
  std::vector<Json> rows;
  const Json report = json_of(words);
  for (const Json& row : report["rows"]) {
    if (std::ranges::find(tables, row["table"].get<std::string>()) != tables.end())
      rows.push_back(row);
  }
  REQUIRE(!rows.empty());
  return rows;
}

bool is_same_but_for_cap(const Json& a, const Json& b) {
  return std::ranges::all_of(std::vector{"table", "scheme", "tp", "microbatches", "layers"},
                             [&](const char* key) { return a[key] == b[key]; });
}

// The row of the largest cap among those that are like `row`.
const Json& find_largest_cap(const std::vector<Json>& rows, const Json& row) {
  const Json* largest = nullptr;
  for (const Json& each : rows) {
    if (!is_same_but_for_cap(each, row)) continue;
    if (largest == nullptr || (*largest)["bucket_cap_mb"] < each["bucket_cap_mb"]) largest = &each;
  }
  REQUIRE(largest != nullptr);
  return *largest;
}

// With few layers many caps make the same buckets.  Six layers lie on a line, and four are run.
TEST_CASE("a plan has the figures that it has without plans of smaller caps", "[cli][plan]") {
  const std::string layers = GENERATE("6", "4");
  const auto rows_with_caps = [&](const std::string& caps) {
    return rows_of({"plan", "--world", "4"},
                   {"seq=16", "layers=" + layers, "bucket_cap_mb=" + caps, "pp=1", "batch=8",
                    "checkpoint=none", "microbatches=1,2", "exhaustive=true", "full=0"},
                   {"plan", "layers", "full"});
  };
  const std::vector<Json> all = rows_with_caps("0.05,0.5,1");
  std::ptrdiff_t plans = 0;
  std::ptrdiff_t found = 0;
  for (const Json& alone : rows_with_caps("1")) {
    if (alone["table"] != "plan") continue;
    const Json& plan = find_largest_cap(all, alone);
    CAPTURE(plan.dump(), alone.dump());
    CHECK(plan["by_layers_ns"] == alone["by_layers_ns"]);
    CHECK(plan["by_layers_peak_bytes"] == alone["by_layers_peak_bytes"]);
    for (const auto* const column : {"step_ns", "computing_ns", "idle_ns", "peak_bytes", "flops",
                                     "dp_exposed_ns", "tp_exposed_ns"}) {
      // The first of each table is run with all layers.
      if (plan["by"] == alone["by"]) CHECK(plan[column] == alone[column]);
    }
    ++found;
  }
  CHECK(found == (3 + 2) * 2);
  std::ptrdiff_t runs = 0;
  for (const Json& row : all) {
    plans += row["table"] == "plan";
    runs += row["table"] != "plan";
    if (row.contains("are_below_cap") && row["are_below_cap"] == true) {
      CHECK(&find_largest_cap(all, row) == &row);
    }
  }
  // Caps above all gradients of all layers are one plan already.
  CHECK(runs <= (layers == "6" ? 2 * plans - 1 : plans));
}

// The bench of the steps searches for races between streams, and a plan's run does not.
TEST_CASE("a plan's run takes what the bench of its steps measures", "[cli][plan][ddp]") {
  const Words keys = {"scheme=ddp,zero1,fsdp2", "layers=3", "bucket_cap_mb=0.05", "seq=16"};
  Words of_steps = {"world=4", "batch=1"};
  of_steps.insert(of_steps.end(), keys.begin(), keys.end());
  const auto steps = rows_of({"run", "--bench", "ddp"}, of_steps, {"step"});
  Words of_plans = {"pp=1", "microbatches=1", "checkpoint=none", "full=99", "exhaustive=true"};
  of_plans.insert(of_plans.end(), keys.begin(), keys.end());
  const auto plans = rows_of({"plan", "--world", "4"}, of_plans, {"full"});
  CHECK(steps.size() == 3);
  for (const Json& step : steps) {
    const auto plan = std::ranges::find_if(plans, [&](const Json& each) {
      return each["tp"] == 1 && each["scheme"] == step["scheme"];
    });
    REQUIRE(plan != plans.end());
    CHECK((*plan)["step_ns"] == step["step_ns"]);
  }
}

TEST_CASE("more micro-batches are timed only where fewer do not fit", "[cli][plan]") {
  const Words keys = {
      "seq=64", "layers=4",           "batch=32", "bucket_cap_mb=100",  "scheme=ddp",
      "pp=1",   "microbatches=4,1,2", "full=0",   "checkpoint=none,all"};
  const auto plan_of = [](const std::vector<Json>& plans, int microbatches,
                          const std::string& checkpoint) {
    return *std::ranges::find_if(plans, [&](const Json& plan) {
      return plan["tp"] == 1 && plan["microbatches"] == microbatches &&
             plan["checkpoint"] == checkpoint;
    });
  };
  const auto plans = rows_of({"plan", "--world", "2"}, keys, {"plan"});
  CHECK(plan_of(plans, 1, "none")["needless"].is_null());
  for (const int microbatches : {2, 4}) {
    CHECK(plan_of(plans, microbatches, "none")["needless"] ==
          "fewer micro-batches take it, and fit");
  }
  const std::int64_t less = plan_of(plans, 1, "none")["peak_bytes"].get<std::int64_t>() - 1;
  const auto others =
      rows_of({"plan", "--world", "2", "--memory", std::to_string(less)}, keys, {"plan"});
  CHECK(plan_of(others, 1, "none")["refused"].is_string());
  CHECK(plan_of(others, 2, "none")["needless"].is_null());
  CHECK(plan_of(others, 2, "none")["step_ns"] > 0);
  CHECK(plan_of(others, 4, "none")["needless"] == "fewer micro-batches take it, and fit");
}

}  // namespace
}  // namespace kernbench::test::plan_runs_test
