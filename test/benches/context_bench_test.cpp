// The bench `context`: efficiency of orders and of what moves.

#include <catch2/catch.hpp>
#include <cstdint>

#include "test/benches/program_json.h"
#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::context_bench_test {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> command(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"run",   "--bench", "context",    "--topology", "tiny",
                                    "--set", "heads=8", "kv_heads=4", "depth=16"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json rows_of(std::vector<std::string> words) {
  words.insert(words.end(), {"--json", "-"});
  return json_of(words)["rows"];
}

TEST_CASE("a row has what an order costs, beside its formula", "[cli][context]") {
  const Json rows = rows_of(command({"ranks=4", "seq=1024", "method=alltoall"}));
  REQUIRE(rows.size() == 3);
  for (const Json& row : rows) {
    CAPTURE(row.dump());
    const double time = row["time_ns"];
    CHECK(row["efficiency"] == row["one_rank_ns"].get<double>() / (4 * time));
    CHECK(row["efficiency"] < row["formula"]);
    CHECK(row["least_computing_ns"] <= row["most_computing_ns"]);
    // Keys and values of 4 heads of 16 bf16, of 256 tokens, go 3 hops from each rank.
    CHECK(row["link_bytes"] == 3 * 2 * 4 * 16 * 2 * 256);
  }
  CHECK(rows[0]["formula"] == 4.0 / 7);
  CHECK(rows[1]["order"] == "head_tail");
  CHECK(rows[1]["formula"] == 1);
  CHECK(rows[1]["time_ns"] < rows[0]["time_ns"]);
  CHECK(rows[2]["time_ns"] < rows[0]["time_ns"]);
}

TEST_CASE("gathered keys need room for those of all ranks", "[cli][context]") {
  const Json rows =
      rows_of(command({"ranks=4", "seq=1024", "method=alltoall,allgather", "order=head_tail"}));
  REQUIRE(rows.size() == 2);
  // Two further places, or four.
  CHECK(rows[1]["peak_bytes"].get<std::int64_t>() - rows[0]["peak_bytes"].get<std::int64_t>() ==
        2 * (2 * 4 * 16 * 2 * 256));
}

TEST_CASE("Ulysses has a row for each number of ranks", "[cli][context]") {
  const Json rows =
      rows_of(command({"ranks=2,4", "seq=256", "method=ulysses", "backward=true", "causal=false"}));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["order"] == "contiguous");
  CHECK(rows[0]["formula"] == 1);
  CHECK(rows[1]["ranks"] == 4);
}

TEST_CASE("tokens and heads that ranks do not divide are refused", "[cli][context]") {
  const auto refusal = [](const std::vector<std::string>& more) {
    const ProgramResult refused = run_program(command(more));
    CHECK(refused.exit_code == 2);
    return refused.err;
  };
  CHECK_THAT(refusal({"ranks=4", "seq=100"}),
             Says("KB-U012", "100 tokens are not divided by the 8 chunks of 4 ranks"));
  CHECK_THAT(refusal({"ranks=8", "seq=256", "method=ulysses"}),
             Says("KB-U012", "4 are not divided by 8 ranks, as ulysses wants"));
}

}  // namespace
}  // namespace kernbench::test::context_bench_test
