// The bench `moe`: loads, their costs, and DeepEP's bandwidth.

#include <catch2/catch.hpp>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/expert_parallel/routing_load.h"
#include "test/benches/program_json.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::moe_bench_test {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> command(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run",       "--bench", "moe",        "--topology",
                                    "tiny",      "--set",   "ranks=4",    "tokens=64",
                                    "hidden=32", "ffn=16",  "experts=16", "top_k=4"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json rows_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-"});
  return json_of(words)["rows"];
}

constexpr moe::LoadShape kShape{.ranks = 4, .num_experts = 16, .top_k = 4, .tokens = 64};

double ranks_overload(const std::string& name) {
  const auto loads = moe::expert_loads(moe::RoutingLoad::parse(name), kShape);
  std::vector<std::int64_t> of_ranks(4);
  for (std::size_t e = 0; e < loads.size(); ++e) of_ranks[e / 4] += loads[e];
  return moe::overload_factor(of_ranks);
}

TEST_CASE("a row has a load's overload factor, and DeepEP's bandwidths", "[cli][moe]") {
  const Json rows =
      rows_of(command({"routing=W0,W1,W2,W3,W4,W5,W6,W7,lognormal:1", "read=device"}));
  REQUIRE(rows.size() == 9);
  for (const Json& row : rows) {
    CAPTURE(row.dump());
    const std::string name = row["routing"];
    CHECK(row["overload_factor"] == ranks_overload(name));
    CHECK(row["load_max"].get<double>() ==
          row["load_avg"].get<double>() * row["overload_factor"].get<double>());
    CHECK(row["dropped"] == 0);
    std::int64_t tokens = 0;
    for (int rank = 0; rank < 4; ++rank) {
      tokens += moe::RoutingLoad::parse(name).tokens(kShape, rank);
    }
    // 4 rows of 32 bf16 for each token, of a rank on average, also those that stay there.
    const double bytes = static_cast<double>(tokens) / 4 * 4 * 32 * 2;
    CHECK(row["dispatch_gbs"] == bytes / row["dispatch_ns"].get<double>());
    CHECK(row["combine_gbs"] == bytes / row["combine_ns"].get<double>());
  }
  CHECK(rows[2]["experts_ns"] > rows[0]["experts_ns"]);
  CHECK(rows[2]["time_ns"] > rows[0]["time_ns"]);
}

TEST_CASE("padding makes all loads alike", "[cli][moe]") {
  const Json rows = rows_of(command(
      {"routing=W0,W2", "capacity_factor=1", "pad=true", "read=device", "policy=position"}));
  REQUIRE(rows.size() == 2);
  // Each of 16 experts gets 64 x 4 / 16 rows of each of 4 ranks.
  for (const Json& row : rows) {
    CHECK(row["load_max"] == 4 * 16 * 16 / 4);
    CHECK(row["overload_factor"] == 1);
  }
  CHECK(rows[0]["dropped"] == 0);
  // Each of 4 hot experts takes 16 rows of a rank, where half of the tokens give 32 and the
  // others 8.
  CHECK(rows[1]["dropped"] == 4 * (32 + 8 - 16) / 256.0);
  for (const std::string phase : {"time_ns", "dispatch_ns", "experts_ns", "combine_ns"}) {
    CHECK(rows[0][phase] == rows[1][phase]);
  }
  CHECK(rows[0]["link_bytes"] == rows[1]["link_bytes"]);
  // Dropped rows, and the zeros in their places, are no work.
  REQUIRE(rows[0]["utilization"] > 0);
  CHECK(rows[1]["utilization"].get<double>() ==
        Approx(rows[0]["utilization"].get<double>() * (1 - rows[1]["dropped"].get<double>())));
}

TEST_CASE("without values policies drop the same rows; by probs the weights are read, too",
          "[cli][moe]") {
  const auto only = [](const std::string& policy) {
    return rows_of(command({"routing=W2", "capacity_factor=1", policy}))[0];
  };
  const Json probs = only("policy=probs");
  const Json position = only("policy=position");
  CHECK(probs["dropped"] == position["dropped"]);
  CHECK(probs["link_bytes"] == position["link_bytes"]);
  CHECK(probs["read_ns"] > position["read_ns"]);
}

// (ep - 1) / ep E C h e each way, over one link of a ring of two.
TEST_CASE("padded: the bytes on links are exactly those of an even exchange, twice", "[cli][moe]") {
  const Json rows = rows_of({"run", "--bench", "moe", "--topology", "tiny", "--set", "ranks=2",
                             "tokens=64", "hidden=32", "ffn=16", "experts=16", "top_k=4",
                             "routing=W0,W2,lognormal:2", "capacity_factor=1.5", "pad=true"});
  REQUIRE(rows.size() == 3);
  for (const Json& row : rows) CHECK(row["link_bytes"] == 2 * (16 / 2) * 24 * 32 * 2);
}

TEST_CASE("the host's reading, gradients, shared experts and steps cost or change something",
          "[cli][moe]") {
  const auto only = [](const std::vector<std::string>& more) { return rows_of(command(more))[0]; };
  const Json row = only({"routing=W0", "read=device"});
  CHECK(only({"routing=W0"})["dispatch_ns"] > row["dispatch_ns"]);
  CHECK(only({"routing=W0", "read=device", "backward=true"})["time_ns"] > row["time_ns"]);
  CHECK(only({"routing=W0", "read=device", "shared=1"})["experts_ns"] > row["experts_ns"]);
  CHECK(only({"routing=W0", "read=device", "gated=false"})["experts_ns"] < row["experts_ns"]);
  const Json steps = rows_of(command({"routing=W7", "step=0,1"}));
  REQUIRE(steps.size() == 2);
  CHECK(steps[0]["overload_factor"] == 4);
  CHECK(steps[1]["overload_factor"] == 1);
  CHECK(steps[1]["routing"] == "W7 step 1");
}

TEST_CASE("loads and layers that do not fit are refused", "[cli][moe]") {
  const auto refusal = [](const std::vector<std::string>& more) {
    const ProgramResult refused = run_program(command(more));
    CHECK(refused.exit_code == 2);
    return refused.err;
  };
  CHECK_THAT(refusal({"routing=W9"}), Says("KB-U012", "there is no routing 'W9'"));
  CHECK_THAT(refusal({"routing=trace:no/such"}), Says("KB-U012", "'no/such' cannot be read"));
  CHECK_THAT(refusal({"pad=true"}), Says("KB-U012", "wants a capacity_factor"));
  CHECK_THAT(refusal({"pad=true", "capacity_factor=1", "routing=W4"}),
             Says("KB-U012", "ranks of routing W4 have unequal numbers of tokens"));
}

TEST_CASE("a trace is run, and a wrong line of it is a wrong setting", "[cli][moe]") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("good.txt")) << "0 1 2 3\n4 5 6 7\n";
  std::ofstream(folder.path("bad.txt")) << "0 1 2 3\n\n4 5 6 16\n";
  const Json rows = rows_of(command({"routing=trace:" + folder.path("good.txt")}));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["routing"] == "trace:good.txt");
  // Ranks 0 and 1 of 4 have half of the rows each.
  CHECK(rows[0]["overload_factor"] == 2);
  const ProgramResult refused = run_program(command({"routing=trace:" + folder.path("bad.txt")}));
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, Says("KB-U012", "bad.txt:3: expert 16; there are 0 to 15"));
}

TEST_CASE("experts are divided by ranks, and are enough for each token", "[cli][moe]") {
  const auto refusal = [](const std::vector<std::string>& words) {
    const ProgramResult refused = run_program(words);
    CHECK(refused.exit_code == 2);
    return refused.err;
  };
  CHECK_THAT(refusal({"run", "--bench", "moe", "--set", "ranks=3", "experts=16"}),
             Says("KB-U012", "16 are not divided by 3 ranks"));
  CHECK_THAT(refusal({"run", "--bench", "moe", "--set", "experts=4", "top_k=5"}),
             Says("KB-U012", "5 of 4 experts"));
}

}  // namespace
}  // namespace kernbench::test::moe_bench_test
