// kernbench run --bench tp-mlp and tp-transformer.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "test/benches/program_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::tp_benches_test {

using Catch::Contains;
using Json = nlohmann::ordered_json;

namespace {

const std::vector<std::string> kSmallMlp = {"tokens=32", "hidden=64"};
const std::vector<std::string> kSmallGpt = {"seq=16", "hidden=32", "heads=4"};

ProgramResult run_bench(const std::string& bench, std::vector<std::string> settings,
                        const std::vector<std::string>& arguments = {"--json", "-"}) {
  const auto& small = bench == "tp-mlp" ? kSmallMlp : kSmallGpt;
  settings.insert(settings.end(), small.begin(), small.end());
  std::vector<std::string> all = {"run", "--bench", bench};
  all.insert(all.end(), arguments.begin(), arguments.end());
  for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
  return run_program(all);
}

// Returns the rows of a table.
std::vector<Json> rows_of(const std::string& bench, const std::vector<std::string>& settings,
                          const std::string& table = "step") {
  const ProgramResult result = run_bench(bench, settings);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  std::vector<Json> rows;
  const Json report = Json::parse(result.out);
  for (const Json& row : report["rows"]) {
    if (row["table"] == table) rows.push_back(row);
  }
  return rows;
}

}  // namespace

TEST_CASE("a step for each number of ranks, all of it right", "[cli][tensor_parallel]") {
  for (const std::string bench : {"tp-mlp", "tp-transformer"}) {
    // Collectives of steps so small end before the host has issued the next launch.
    const std::vector<Json> rows = rows_of(bench, {"tp=4,1,2", "system.host_link.issue=0 ns"});
    REQUIRE(rows.size() == 3);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Json& row = rows[i];
      CHECK(row["tp"] == 1 << i);
      CHECK(row["wrong"] == 0);
      CHECK(row["unequal"] == 0);
      CHECK(row["checked"].get<int>() > 0);
      const auto ns = [&](const char* column) { return row[column].get<double>(); };
      CHECK(ns("step_ns") == Approx(ns("forward_ns") + ns("backward_ns")));
      CHECK(ns("step_ns") == Approx(ns("compute_ns") + ns("exposed_ns") + ns("idle_ns")));
      CHECK(ns("step_ns") >= ns("bound_ns"));
      const bool is_alone = bench == "tp-transformer" && i == 0;  // one rank, on one PE
      CHECK((is_alone ? ns("communication_ns") == 0 : ns("exposed_ns") < ns("communication_ns")));
    }
  }
}

TEST_CASE("the FLOPs of a step are those of its matrix products", "[cli][tensor_parallel]") {
  // 3 passes, 2 layers, a product of [32, 64] and [64, 256].
  CHECK(rows_of("tp-mlp", {"tp=2"})[0]["flops"] == 3 * 2 * 2 * 32 * 64 * 256);
  CHECK(rows_of("tp-mlp", {"tp=2", "ffn=64"})[0]["flops"] == 3 * 2 * 2 * 32 * 64 * 64);
  // 3 passes, 2 layers, projections of 12 hidden^2 weights, two products of [16, 16] each head.
  CHECK(rows_of("tp-transformer", {"tp=2", "layers=2"})[0]["flops"] ==
        3 * 2 * (2 * 16 * 12 * 32 * 32 + 2 * 2 * 16 * 16 * 32));
}

TEST_CASE("the settings of a step do what they say", "[cli][tensor_parallel]") {
  const Json row = rows_of("tp-mlp", {"tp=2", "pes=4", "dtype=bf16"})[0];
  CHECK(row["pes"] == 4);
  CHECK(rows_of("tp-mlp", {"tp=2"})[0]["pes"] == 8);
  CHECK(rows_of("tp-transformer", {"tp=2"})[0]["pes"] == 2);  // heads of a rank
  CHECK(rows_of("tp-mlp", {"tp=2"})[0]["sip_pes"] == 128);
  CHECK(rows_of("tp-mlp", {"tp=2", "check=false"})[0]["wrong"].is_null());

  const auto calls = [](const std::vector<Json>& rows) {
    std::map<std::string, int> counts;
    for (const Json& use : rows) counts[use["collective"]] += use["count"].get<int>();
    return counts;
  };
  using Counts = std::map<std::string, int>;
  CHECK(calls(rows_of("tp-transformer", {"tp=2"}, "collective")) == Counts{{"all_reduce", 4}});
  CHECK(calls(rows_of("tp-transformer", {"tp=2", "sequence_parallel=true"}, "collective")) ==
        Counts{{"all_gather_into_tensor", 6}, {"reduce_scatter_tensor", 4}, {"all_reduce", 6}});
}

TEST_CASE("ranks have as many PEs at every point of a sweep", "[cli][tensor_parallel]") {
  for (const auto& [settings, pes] : std::vector<std::pair<std::vector<std::string>, int>>{
           {{"tp=1,2,4", "check=false"}, 1},  // one of 4 heads at tp 4
           {{"tp=1,2", "check=false"}, 2},
           {{"tp=2", "check=false"}, 2},
           {{"tp=1", "check=false"}, 4},
           {{"tp=1,2", "pes=1", "check=false"}, 1}}) {
    for (const Json& row : rows_of("tp-transformer", settings)) CHECK(row["pes"] == pes);
  }
}

TEST_CASE("products that ranks share scale with them", "[cli][tensor_parallel]") {
  // 1024 columns for the one PE of tp 1, 256 for each of four.  Launches and the second bias do not
  // shrink, and still more than half of the gain is left; with a fourth of the PEs at tp 4 there is
  // none.
  const std::vector<Json> rows = rows_of("tp-mlp", {"tp=1,4", "pes=1", "ffn=1024", "check=false"});
  REQUIRE(rows.size() == 2);
  const auto ns = [&](int row, const char* column) { return rows[row][column].get<double>(); };
  CHECK(ns(0, "compute_ns") > 2 * ns(1, "compute_ns"));
  CHECK(ns(0, "bound_ns") > 2 * ns(1, "bound_ns"));
  CHECK(ns(0, "step_ns") / ns(1, "step_ns") <= 4);
}

TEST_CASE("without overlap a step's communication is all exposed, and takes longer",
          "[cli][tensor_parallel]") {
  const Json with = rows_of("tp-mlp", {"tp=2"})[0];
  const Json without = rows_of("tp-mlp", {"tp=2", "overlap=false"})[0];
  CHECK(without["exposed_ns"] == without["communication_ns"]);
  CHECK(without["step_ns"].get<double>() > with["step_ns"].get<double>());
  CHECK(without["forward_ns"] == with["forward_ns"]);
}

TEST_CASE("with as many ranks as the topology has SIPs it is simulated itself",
          "[cli][tensor_parallel]") {
  const auto bound_on = [](const std::string& topology) {
    const ProgramResult result =
        run_bench("tp-mlp", {"tp=6", "ffn=48"}, {"--json", "-", "--topology", topology});
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    CHECK_THAT(result.err, Contains("all SIPs are one tensor parallel group"));
    return Json::parse(result.out)["rows"][0]["bound_ns"].get<double>();
  };
  // News crosses a ring of six in three steps, a torus of 2 x 3 in two.
  CHECK(bound_on("ring_1d_6") > bound_on("torus_2d_2x3"));
  const ProgramResult others =
      run_bench("tp-mlp", {"tp=2,6", "ffn=48"}, {"--topology", "torus_2d_2x3"});
  CHECK(others.exit_code == 0);
  CHECK_THAT(others.out, Contains("each point has a ring of tp SIPs like these"));
}

TEST_CASE("a run with a folder leaves tables and figures there", "[cli][tensor_parallel]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_bench("tp-transformer", {"tp=1,2"}, {"--out", folder.path("out")});
  REQUIRE(result.exit_code == 0);
  const std::string steps = folder.read("out/steps.csv");
  CHECK(std::ranges::count(steps, '\n') == 3);
  CHECK(steps.starts_with("table,tp,world_size,system,pes,sip_pes,forward_ns,"));
  CHECK(folder.read("out/collectives.csv").starts_with("table,tp,world_size,system,collective,"));
  CHECK_THAT(folder.read("out/strong_scaling.gp"),
             Contains("strong scaling") && Contains("2 of the 128 PEs of each SIP"));
  CHECK_THAT(folder.read("out/step_time.gp"), Contains("share of the step"));
}

TEST_CASE("the table of steps is for people", "[cli][tensor_parallel]") {
  const ProgramResult result = run_bench("tp-transformer", {"tp=1,2"}, {});
  CHECK(result.exit_code == 0);
  for (const char* text :
       {"2 of the 128 PEs of each SIP, one of a cube (4 x 4 cubes of 8 PEs)",
        "of peak: of the arrays of so many PEs (pes); a SIP has 128",
        "at tp 1 a collective sums over the PEs of the SIP, and no link is used",
        "GPT: 1 block of hidden 32, 4 heads, sequence 16, f16", "speed-up", "exposed", "busbw",
        "all_reduce", "wrong 0, in other bits than rank 0's 0 OK", "bound"}) {
    CHECK_THAT(result.out, Contains(text));
  }
}

TEST_CASE("one rank is told once that it is not sequence parallel", "[cli][tensor_parallel]") {
  const ProgramResult result =
      run_bench("tp-mlp", {"tp=1", "sequence_parallel=true", "check=false"});
  CHECK(result.exit_code == 0);
  const std::string code = "[KB-T007] `sequence_parallel` of";
  CHECK_THAT(result.err, Contains(code));
  CHECK(result.err.find(code) == result.err.rfind(code));
  CHECK_THAT(run_bench("tp-mlp", {"tp=2", "sequence_parallel=true", "check=false"}).err,
             !Contains(code));
}

TEST_CASE("a step refuses what cannot be", "[cli][tensor_parallel][errors]") {
  const auto [bench, setting, expected] = GENERATE(table<std::string, std::string, Says>({
      {"tp-mlp", "tp=3", Says("KB-U012", "--set tp: 3", "ffn", "256")},
      {"tp-mlp", "tp=0", Says("KB-U012", "--set tp")},
      {"tp-mlp", "tp=2,2", Says("KB-U012", "--set tp=2,2", "'2' is given twice")},
      {"tp-mlp", "pes=3", Says("KB-U012", "--set pes: 3", "256 at tp 1", "8 divides it")},
      {"tp-mlp", "pes=17", Says("KB-U012", "17 are more than the 16 cubes of a SIP")},
      {"tp-mlp", "pes=0", Says("KB-U012", "--set pes: 0", "[1, 128]")},
      {"tp-mlp", "ffn=0", Says("KB-U012", "--set ffn")},
      {"tp-transformer", "tp=8", Says("KB-U012", "--set tp: 8", "heads", "4")},
      {"tp-transformer", "layers=0", Says("KB-U012", "--set layers")},
  }));
  const ProgramResult result = run_bench(bench, {setting});
  CAPTURE(bench, setting);
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, expected);
}

TEST_CASE("tokens that ranks do not divide, and heads that are no part of hidden, are refused",
          "[cli][tensor_parallel][errors]") {
  const ProgramResult tokens = run_program({"run", "--bench", "tp-mlp", "--set", "tp=4", "--set",
                                            "tokens=6", "--set", "sequence_parallel=true"});
  CHECK(tokens.exit_code == 2);
  CHECK_THAT(tokens.err, Contains("--set tp: 4 does not divide the number of tokens, which is 6"));
  const ProgramResult heads =
      run_program({"run", "--bench", "tp-transformer", "--set", "heads=6", "--set", "hidden=32"});
  CHECK(heads.exit_code == 2);
  CHECK_THAT(heads.err, Contains("--set heads: 6 do not divide hidden, which is 32"));
}

}  // namespace kernbench::test::tp_benches_test
