// `kernbench probe order` and the bench `numerics`: trees as text and JSON, errors within bounds.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "test/benches/program_json.h"
#include "test/support/error_text.h"

namespace kernbench::test::order_of_sums_test {

using Catch::Contains;
using Json = nlohmann::ordered_json;

namespace {

using Words = std::vector<std::string>;

Words order(const Words& more) {
  Words words = {"probe", "order"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Json numbers_of(const Words& settings, const std::string& topology = "zero_overhead") {
  Words words = {"run", "--bench", "numerics", "--topology", topology, "--json", "-", "--set"};
  words.insert(words.end(), settings.begin(), settings.end());
  const Json report = json_of(run_program(words));
  CHECK(report["ok"] == true);
  return report["rows"];
}

}  // namespace

TEST_CASE("probe order prints the tree of an element, and who shares it", "[cli][probe][order]") {
  const ProgramResult result =
      run_program(order({"--topology", "zero_overhead", "--algorithm", "ring_allreduce", "--bytes",
                         "400", "--element", "26"}));
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("\n(((r2+r3)+r0)+r1)\n") &&
                             Contains("26 of 100: 4 of 4 have the sum, with the same bits") &&
                             Contains("3 of its 3 additions follow each other") &&
                             Contains("at most 3 u sum|x|, u = 2^-24 (f32)") &&
                             Contains("divides the sum by 4") && Contains("4 at this size, of 4") &&
                             Contains("on the element's index, and on the size") &&
                             Contains("75..99"));
}

TEST_CASE("probe order has the trees of all elements as JSON", "[cli][probe][order]") {
  const Json ring = json_of(
      order({"--topology", "zero_overhead", "--algorithm", "ring", "--bytes", "32", "--dtype",
             "bf16", "--collective", "reduce_scatter", "--element", "5", "--json", "-"}));
  CHECK(ring["tree"] == "(((r2+r3)+r0)+r1)");  // rank 1 alone has it
  CHECK(ring["depth"] == 3);
  CHECK(ring["trees"].size() == 4);
  CHECK(ring["trees"][1]["ranges"] == Json({{4, 8}}));
  // Three ranks of four, up a tree; two ranks have one tree, whatever their order.
  const Json tree = json_of(order({"--topology", "zero_overhead", "--algorithm", "tree_allreduce",
                                   "--bytes", "4KiB", "--ranks", "3", "--json", "-"}));
  CHECK(tree["additions"] == 2);
  CHECK(tree["trees_at_any_size"] == 1);
  CHECK(tree["same_bits_on_all_ranks"] == true);
  const Json two = json_of(order({"--topology", "zero_overhead", "--algorithm", "ring_allreduce",
                                  "--bytes", "4KiB", "--ranks", "2", "--json", "-"}));
  CHECK(two["trees_at_any_size"] == 1);
}

TEST_CASE("probe order adds what lies on several cubes of a SIP first", "[cli][probe][order]") {
  const Json cubes = json_of(order({"--topology", "default", "--algorithm", "intercube_allreduce",
                                    "--bytes", "4KiB", "--cube", "partial", "--json", "-"}));
  CHECK(cubes["additions"] == 31);  // two SIPs of 16 cubes
  CHECK_THAT(cubes["tree"].get<std::string>(), Contains("(r0.cube0+r0.cube1)"));
}

TEST_CASE("probe order says what is wrong with its words", "[cli][probe][order][errors]") {
  const auto refuses = [](const Words& words, const auto& text) {
    Words all = {"--topology", "zero_overhead"};
    all.insert(all.end(), words.begin(), words.end());
    const ProgramResult result = run_program(order(all));
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, text);
  };
  const std::string ring = "ring_allreduce";
  refuses({"--algorithm", "ring_allreduc", "--bytes", "64"},
          test::Says("KB-U012", "--algorithm", "'ring_allreduc'", "'ring_allreduce'"));
  refuses({"--algorithm", "hello_send", "--bytes", "64"},
          test::Says("KB-U012", "'hello_send'", "a kernel", "ring_allreduce"));
  refuses({"--algorithm", "chain", "--bytes", "64"},
          test::Says("KB-U012", "'chain'", "for broadcast, reduce"));
  refuses({"--algorithm", "swing_allreduce", "--ranks", "3", "--bytes", "64"},
          test::Says("KB-U012", "'swing_allreduce'", "3 ranks", "powers of two"));
  refuses({"--algorithm", "switch_allreduce", "--bytes", "64"},
          test::Says("KB-U012", "'switch_allreduce'", "a switch that adds up"));
  refuses({"--algorithm", ring, "--ranks", "5", "--bytes", "64"},
          test::Says("KB-U012", "--ranks", "'5'", "1", "4"));
  refuses({"--algorithm", ring, "--bytes", "64", "--element", "16"},
          test::Says("KB-U012", "--element", "'16'", "0", "15"));
  refuses({"--algorithm", ring, "--bytes", "6"},
          test::Says("KB-U012", "--bytes", "'6'", "multiple of 4 B"));
  refuses({"--algorithm", ring, "--bytes", "0"}, test::Says("KB-U012", "--bytes", "'0'"));
  refuses({"--algorithm", ring, "--bytes", "64", "--collective", "all_gather"},
          test::Says("KB-U012", "'all_gather'", "adds nothing up", "all_reduce", "reduce_scatter"));
  refuses({"--algorithm", "ring", "--bytes", "36", "--collective", "reduce_scatter"},
          test::Says("KB-U012", "multiple of 16 B", "each rank's block"));
  refuses({"--algorithm", ring, "--bytes", "64", "--dtype", "f61"},
          test::Says("KB-U012", "--dtype", "'f61'", "'f16'"));
  refuses({"--algorithm", ring, "--bytes", "64", "--cube", "partail"},
          test::Says("KB-U012", "--cube", "'partail'", "'partial'"));
}

TEST_CASE("probe order takes at most 64 ranks, of groups of SIPs", "[cli][probe][order][errors]") {
  const Words scale = {"--topology",     "scale_1024", "--algorithm",
                       "ring_allreduce", "--bytes",    "4KiB"};
  const ProgramResult all = run_program(order(scale));
  CHECK(all.exit_code == 2);
  CHECK_THAT(all.err, test::Says("KB-U012", "'scale_1024'", "1024 ranks", "--ranks", "64"));
  Words some = scale;
  some.insert(some.end(), {"--ranks", "64", "--json", "-"});
  CHECK(json_of(order(some))["trees_at_any_size"] == 64);
  const TemporaryFolder folder;
  Words pes = scale;
  pes.insert(pes.end(),
             {"--ccl",
              folder.write("ccl.yaml", "defaults: {algorithm: ring_allreduce, world_size: 8}\n")});
  CHECK_THAT(run_program(order(pes)).err, test::Says("KB-Y043", "world_size", "SIPs"));
}

TEST_CASE("numerics: errors stay in their bounds, and bits are those of the trees",
          "[cli][numerics][order]") {
  std::set<std::string> algorithms;
  for (const Json& row : numbers_of({"ranks=2,4,16", "dtype=f32,bf16,f16", "bytes=2Ki"})) {
    CAPTURE(row.dump());
    if (!row.contains("trees")) continue;
    algorithms.insert(row["algorithm"]);
    const int ranks = row["ranks"];
    CHECK(row["wrong"] == 0);
    CHECK(row["worst_error"] <= row["depth"]);
    CHECK(row["worst_error"] > 0.3);  // sums of such numbers do round
    CHECK(row["rms_error"] < row["worst_error"]);
    CHECK(row["worst_ulp"] >= 0.4);
    CHECK(row["depth"] >= (ranks == 2 ? 1 : ranks == 4 ? 2 : 4));
    CHECK(row["depth"] < ranks);
    CHECK(row["crit_ns"] > 0);
    if (ranks == 2) CHECK(row["varying"] == 0);
    if (row["trees"] == 1) CHECK(row["varying"] == 0);
  }
  CHECK(algorithms.size() == 12);
}

TEST_CASE("numerics: sums of a higher level do not vary, and take longer",
          "[cli][numerics][order]") {
  const Json rows = numbers_of(
      {"algorithm=tree_allreduce", "reproducible=run,batch,ranks", "ranks=8", "bytes=64Ki"},
      "default");
  std::set<std::string> levels;
  for (const Json& row : rows) {
    if (!row.contains("reproducible")) continue;
    CAPTURE(row.dump());
    const std::string level = row["reproducible"];
    levels.insert(level);
    CHECK(row["wrong"] == 0);
    CHECK((row["varying"] > 0) == (level == "run"));
    if (level != "run") CHECK(row["slower"] > 1);
    // One rounding in all: half a unit in the last place.
    CHECK((row["worst_ulp"] <= 0.5) == (level == "ranks"));
  }
  CHECK(levels == std::set<std::string>{"run", "batch", "ranks"});
}

TEST_CASE("numerics: training has the same bits on any number of ranks, at a price",
          "[cli][numerics]") {
  const Json rows = numbers_of({"ranks=2,3,16", "bytes=1Ki", "dtype=f32"}, "tiny");
  std::map<std::string, std::set<double>> losses;
  int count = 0;
  for (const Json& row : rows) {
    if (!row.contains("training")) continue;
    CAPTURE(row.dump());
    ++count;
    losses[row["training"]].insert(row["fixed_loss"].get<double>());
    CHECK(row["wrong"] == 0);
    CHECK(row["slower"] >= 1);
    if (row["ranks"] == 16) CHECK(row["slower"] < 1.25);
  }
  CHECK(count == 9);
  CHECK(losses.size() == 3);
  for (const auto& [scheme, each] : losses) CHECK(each.size() == 1);
}

// As in test/ccl/order_of_sums_test.cpp, with other numbers.
TEST_CASE("numerics: 68, 96 and 100 % of elements in a ring would have other bits elsewhere",
          "[cli][numerics][order]") {
  const Json rows = numbers_of({"algorithm=ring_allreduce", "dtype=f32", "bytes=40000"});
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["varying"].get<double>() == Approx(0.684).margin(0.015));
  CHECK(rows[1]["varying"].get<double>() == Approx(0.960).margin(0.008));
  CHECK(rows[2]["varying"].get<double>() == Approx(0.999).margin(0.002));
  CHECK(rows[2]["depth"] == 15);
}

TEST_CASE("numerics: another seed draws other numbers, and equal ones the same",
          "[cli][numerics]") {
  const auto worst = [](const std::string& seed) {
    const Json report =
        json_of(run_program({"run", "--bench", "numerics", "--json", "-", "--seed", seed, "--set",
                             "algorithm=tree_allreduce", "ranks=4", "dtype=f32"}));
    return report["rows"][0]["rms_error"].get<double>();
  };
  CHECK(worst("1") == worst("1"));
  CHECK(worst("1") != worst("2"));
}

TEST_CASE("numerics runs on each kind of network, a switch that adds up too", "[cli][numerics]") {
  const auto has = [](const Json& rows, const std::string& name) {
    return std::ranges::any_of(rows,
                               [&](const Json& row) { return row.value("algorithm", "") == name; });
  };
  CHECK(has(numbers_of({"ranks=3", "bytes=1Ki"}, "h100_8"), "switch_allreduce"));
  const Json torus = numbers_of({"ranks=6", "bytes=1Ki"}, "torus_2d_2x3");
  CHECK(has(torus, "packed_trees"));
  CHECK(!has(torus, "swing_allreduce"));
  const ProgramResult refused =
      run_program({"run", "--bench", "numerics", "--set", "algorithm=swing_allreduce", "ranks=6"});
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.err, test::Says("KB-U012", "'swing_allreduce'", "6 ranks", "ring_allreduce"));
}

}  // namespace kernbench::test::order_of_sums_test
