// An algorithm that is named has to run a collective, and every collective says by what it ran.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::named_algorithm_test {
namespace {

using Catch::Contains;
using Json = nlohmann::ordered_json;

const std::string kTree = "defaults: {algorithm: tree_allreduce}\n";

ProgramResult run_bench(const std::string& bench, std::vector<std::string> more) {
  more.insert(more.begin(), {"run", "--bench", bench, "--topology", "ring_1d_6"});
  return run_program(more);
}

const std::vector<std::string> kSmallMlp = {"--set", "tp=2", "tokens=8", "hidden=8"};
const std::vector<std::string> kSmallSizes = {"--set", "begin=960", "end=960"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_CASE("the algorithm that --ccl names serves every group", "[cli][algorithm]") {
  const TemporaryFolder folder;
  const std::string ccl = folder.write("tree.yaml", kTree);
  const ProgramResult result =
      run_bench("tp-mlp", with(kSmallMlp, {"--ccl", ccl, "--csv", folder.path("rows.csv")}));
  CHECK(result.exit_code == 0);
  CHECK_THAT(read_file(folder.path("rows.csv")), Contains("tree_allreduce"));
  const ProgramResult other = run_bench("tp-mlp", kSmallMlp);
  const auto fingerprint = [](const ProgramResult& of) {
    return of.out.substr(of.out.find("fingerprint"));
  };
  CHECK(fingerprint(result) != fingerprint(other));
}

TEST_CASE("an algorithm that runs nothing is told of with what ran instead", "[cli][algorithm]") {
  const TemporaryFolder folder;
  const std::string ccl = folder.write("tree.yaml", kTree);
  const ProgramResult gathered =
      run_bench("collectives", with(kSmallSizes, {"collective=all_gather", "--ccl", ccl}));
  CHECK(gathered.exit_code == 3);
  CHECK_THAT(gathered.err, Contains("what ran was all_gather by direct"));
  const ProgramResult product = run_bench("gemm", {"--set", "m=8", "n=8", "k=8", "--ccl", ccl});
  CHECK(product.exit_code == 3);
  CHECK_THAT(product.err, Contains("ran no collective of this run: there was none"));
}

TEST_CASE("an algorithm that is named and runs, or is not named, is fine", "[cli][algorithm]") {
  const TemporaryFolder folder;
  const std::string tree = folder.write("tree.yaml", kTree);
  const std::string depth = folder.write("depth.yaml", "defaults: {depth: 2}\n");
  CHECK(run_bench("collectives", with(kSmallSizes, {"--ccl", tree})).exit_code == 0);
  CHECK(run_bench("tp-mlp", with(kSmallMlp, {"--ccl", depth})).exit_code == 0);
  for (const std::string name : {"ring_allreduce", "auto", "hello_send"}) {
    const std::vector<std::string> settings = {"--set", "n_elem=64", "algorithm=" + name};
    CHECK(run_bench("ccl-allreduce", settings).exit_code == 0);
  }
}

TEST_CASE("an algorithm may be named for one group, and a group that is not there is told",
          "[cli][algorithm]") {
  const TemporaryFolder folder;
  const auto run_with = [&](const std::string& algorithm) {
    return run_bench("tp-mlp", with(kSmallMlp, {"algorithm=" + algorithm}));
  };
  const ProgramResult named = run_with("TENSOR_MODEL_PARALLEL_GROUP:tree_allreduce");
  CHECK(named.exit_code == 0);
  CHECK_THAT(named.out, Contains("tree_allreduce\n"));
  const std::string rules = folder.write(
      "rules.yaml",
      "rules: [{all_reduce: {algorithm: ring_allreduce, group: TENSOR_MODEL_PARALLEL_GROUP}}]\n");
  CHECK_THAT(run_bench("tp-mlp", with(kSmallMlp, {"--ccl", rules})).out,
             Contains("ring_allreduce\n"));
  const ProgramResult misspelt = run_with("TENSOR_PARALLEL_GROUP:tree_allreduce");
  CHECK(misspelt.exit_code == 3);
  CHECK_THAT(misspelt.err, Contains("[KB-Y046]") &&
                               Contains("what ran was all_reduce by swing_whole_allreduce") &&
                               Contains("a group's description as new_group() has it"));
}

TEST_CASE("rules of the user's file that no call has used are named at the end, and no others",
          "[cli][algorithm]") {
  const TemporaryFolder folder;
  const std::string rules =
      folder.write("rules.yaml",
                   "rules:\n"
                   "  - all_reduce: {algorithm: tree_allreduce, ranks: 7}\n"
                   "  - all_reduce: {algorithm: tree_allreduce, group: NOPE}\n"
                   "  - all_reduce: {algorithm: ring_allreduce, ranks: 6}\n");
  const ProgramResult result = run_bench("collectives", with(kSmallSizes, {"--ccl", rules}));
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("rules.yaml:2:29 (all_reduce by tree_allreduce, ranks 7)"));
  CHECK_THAT(result.out, Contains("rules.yaml:3:29 (all_reduce by tree_allreduce, group NOPE)"));
  CHECK_THAT(result.out, !Contains("rules.yaml:4"));
  const ProgramResult grid =
      run_bench("collectives", {"--set", "begin=960,1920", "end=1920", "--ccl", rules});
  CHECK_THAT(grid.out, Contains("rules.yaml:3:29") && !Contains("rules.yaml:4"));
}

TEST_CASE("entries of the shipped ccl.yaml that nothing chooses are neither named nor refused",
          "[cli][algorithm]") {
  const ProgramResult depth = run_bench("ccl-allreduce", {"--set", "n_elem=64", "depth=2"});
  CHECK(depth.exit_code == 0);
  CHECK_THAT(depth.out, !Contains("not used"));
  const std::string alone = "participants=one_pe_per_sip";
  CHECK(run_bench("collectives", with(kSmallSizes, {alone})).exit_code == 0);
  const ProgramResult chosen =
      run_bench("ccl-allreduce", {"--set", "n_elem=64", "algorithm=mesh_allreduce_4", alone});
  CHECK(chosen.exit_code == 3);
  CHECK_THAT(chosen.err, Says("KB-Y042", "algorithms.mesh_allreduce_4", "keep one"));
}

TEST_CASE("rows of collectives name their algorithm", "[cli][algorithm]") {
  // The fastest by the model, of 256 B and of 64 KiB.
  for (const auto& [bench, algorithm] : {std::pair{std::string("tp-mlp"), "swing_whole_allreduce"},
                                         {"tp-transformer", "intercube_allreduce"}}) {
    std::vector<std::string> settings = {"--set", "tp=2", "tokens=8", "hidden=16", "--json", "-"};
    if (bench == "tp-transformer") settings = {"--set", "tp=2", "--json", "-"};
    const ProgramResult result = run_bench(bench, settings);
    CAPTURE(bench, result.err);
    REQUIRE(result.exit_code == 0);
    int collectives = 0;
    const Json report = Json::parse(result.out);
    for (const Json& row : report["rows"]) {
      if (row["table"] != "collective") continue;
      CHECK(row["algorithm"] == algorithm);
      ++collectives;
    }
    CHECK(collectives > 0);
  }
  const ProgramResult table = run_bench("tp-mlp", kSmallMlp);
  CHECK_THAT(table.out, Contains("busbw  algorithm\n"));
}

}  // namespace
}  // namespace kernbench::test::named_algorithm_test
