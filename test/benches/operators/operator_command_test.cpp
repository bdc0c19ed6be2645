// `kernbench bench`, as a user gives it.  The operators are those of the guide: they are small.

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "test/benches/program_json.h"
#include "test/support/error_text.h"

namespace kernbench::test::operator_command_test {
namespace {

using Catch::Contains;
using Catch::StartsWith;
using Json = nlohmann::ordered_json;

ProgramResult bench(std::vector<std::string> more, const ProgramOptions& options = {}) {
  more.insert(more.begin(), "bench");
  return run_program(more, options);
}

ProgramResult my_bench(const TemporaryFolder& folder, std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "--topology", "tiny"});
  return run_program(more, {.program = MY_OPERATORS_PROGRAM, .folder = folder.path("")});
}

TEST_CASE("bench checks an operator, shows its times, and writes them", "[operator_command]") {
  const TemporaryFolder folder;
  const ProgramResult result = my_bench(folder, {"--case", "fused_swiglu", "--dtype", "f32"});
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK_THAT(result.out, StartsWith("# kernbench 0.1.0: operator fused_swiglu\n#\n"));
  const std::string::size_type checked = result.out.find("# checked: each element");
  const std::string::size_type timed = result.out.find("# fused_swiglu, f32, fwd\n");
  CHECK(checked < timed);
  CHECK(timed != std::string::npos);
  CHECK(folder.names() == std::vector<std::string>{"configs"});
  const std::string csv = folder.read("configs/fused_swiglu/f32/fused_swiglu-f32-bwd-perf.csv");
  CHECK_THAT(csv, StartsWith("dim,batch_size,seq_len,Naive (us),Compiled (us),Fused (us),SpeedUp,"
                             "Roofline (us),Naive of roofline (%),"));
  CHECK(std::ranges::count(csv, '\n') == 3);
  CHECK_THAT(result.out, Contains("#   world size    1 rank, on SIP 0\n"));
  CHECK_THAT(csv, Contains("\n2048,1,4096,"));
}

TEST_CASE("the same bench writes the same bytes, with any number of jobs",
          "[operator_command][determinism]") {
  const TemporaryFolder one;
  const TemporaryFolder four;
  REQUIRE(my_bench(one, {"--case", "swiglu", "--dtype", "all", "--jobs", "1"}).exit_code == 0);
  REQUIRE(my_bench(four, {"--case", "swiglu", "--dtype", "all", "--jobs", "4"}).exit_code == 0);
  for (const std::string dtype : {"f16", "bf16", "f32"}) {
    for (const std::string direction : {"fwd", "bwd"}) {
      const std::string file =
          "configs/swiglu/" + dtype + "/swiglu-" + dtype + "-" + direction + "-perf.csv";
      CHECK(one.read(file) == four.read(file));
    }
  }
}

TEST_CASE("several types are given with commas", "[operator_command]") {
  const TemporaryFolder folder;
  REQUIRE(my_bench(folder, {"--case", "swiglu", "--dtype", "fp16,f32"}).exit_code == 0);
  CHECK(std::filesystem::exists(folder.path("configs/swiglu/f16/swiglu-f16-fwd-perf.csv")));
  CHECK(std::filesystem::exists(folder.path("configs/swiglu/f32/swiglu-f32-bwd-perf.csv")));
  CHECK_FALSE(std::filesystem::exists(folder.path("configs/swiglu/bf16")));
}

TEST_CASE("a wrong provider ends the run with 23 before any time is shown",
          "[operator_command][errors]") {
  const TemporaryFolder folder;
  const ProgramResult result = my_bench(folder, {"--case", "wrong_swiglu", "--dtype", "f32"});
  CHECK(result.exit_code == 23);
  CHECK_THAT(result.err, Says("KB-N040", "wrong_swiglu, f32 (2, 16, 512): fused bwd", "dx at [0",
                              "naive has", "(atol = rtol = 0.01)"));
  CHECK_THAT(result.out, !Contains("(us)"));
  CHECK_THAT(result.out, Contains("#   failed        wrong_swiglu-f32-check: f32 (2, 16, 512)\n"));
}

TEST_CASE("with --plot there are figures of batch 1, with --profile traces", "[operator_command]") {
  const TemporaryFolder folder;
  const ProgramResult result =
      my_bench(folder, {"--case", "fused_swiglu", "--plot", "--profile", "--save-path", "results"});
  REQUIRE(result.exit_code == 0);
  const std::string stem = "results/fused_swiglu/bf16/fused_swiglu-bf16-fwd-speedup";
  CHECK_THAT(folder.read(stem + ".gp"), Contains("Geometric mean: Compiled ") &&
                                            Contains("csv = 'fused_swiglu-bf16-fwd-speedup.csv'"));
  CHECK_THAT(folder.read(stem + ".csv"), StartsWith("dim,batch_size,seq_len,Naive (us),"));
  CHECK_FALSE(std::filesystem::exists(
      folder.path("results/fused_swiglu/bf16/fused_swiglu-bf16-fwd-perf.csv")));
  for (const std::string provider : {"naive", "compiled", "fused"}) {
    for (const std::string direction : {"fwd", "bwd"}) {
      const Json trace = Json::parse(folder.read("results/fused_swiglu/bf16/traces/trace_" +
                                                 direction + "_" + provider + "_N4096.json"));
      CHECK(trace["traceEvents"].size() > 20);
    }
  }
}

TEST_CASE("a trace of backward has nothing of forward", "[operator_command]") {
  const TemporaryFolder folder;
  REQUIRE(my_bench(folder, {"--case", "fused_swiglu", "--profile"}).exit_code == 0);
  const auto kernels_in = [&](const std::string& direction) {
    const Json trace = Json::parse(
        folder.read("configs/fused_swiglu/bf16/traces/trace_" + direction + "_fused_N1024.json"));
    std::vector<std::string> names;
    for (const Json& event : trace["traceEvents"]) {
      const std::string name = event["name"];
      if (event["ph"] == "X" && name.starts_with("swiglu_")) names.push_back(name);
    }
    return names;
  };
  CHECK(kernels_in("fwd") == std::vector<std::string>{"swiglu_forward"});
  CHECK(kernels_in("bwd") == std::vector<std::string>{"swiglu_backward"});
}

TEST_CASE("wrong arguments of bench are told with what would be right",
          "[operator_command][errors]") {
  const auto check_refused = [](const std::vector<std::string>& arguments, const Says& expected) {
    const ProgramResult result = bench(arguments);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, StartsWith("kernbench: error: ["));
    CHECK_THAT(result.err, expected);
    CHECK(result.out.empty());
  };
  const std::string help = "kernbench bench --help";
  check_refused({}, Says("KB-U001", "--case", help));
  check_refused({"--case", "rsm"}, Says("KB-U007", "'rsm'", "'rms'"));
  check_refused({"--case", "rms", "--dtype", "bf17"}, Says("KB-U012", "--dtype 'bf17'", "'bf16'"));
  check_refused({"--case", "rms", "--dtype", "f32,"}, Says("KB-U012", "--dtype f32,", "comma"));
  check_refused({"--case", "rms", "--dtype", "f32,f32"}, Says("KB-U012", "'f32' is given twice"));
  check_refused({"--case", "rms", "--save-path", ""}, Says("KB-U012", "--save-path ''", "DIR"));
  check_refused({"--case", "rms", "--plott"}, Says("KB-U001", "'--plott'", "'--plot'", help));
  check_refused({"--case", "rms", "--jobs", "0"}, Says("KB-U012", "--jobs '0'", "1 to 1024"));
  check_refused({"--case", "rms", "--topology", "defualt"},
                Says("KB-U004", "'defualt'", "'default'"));
}

TEST_CASE("a folder that cannot be written is found before anything is simulated",
          "[operator_command][errors][output]") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "");
  const ProgramResult result = bench({"--case", "rms", "--save-path", file + "/x"});
  CHECK(result.exit_code == 4);
  CHECK_THAT(result.err, Contains("[KB-I010] cannot create '" + file + "/x/rms/bf16"));
  CHECK(result.out.empty());
}

TEST_CASE("list names the operators", "[operator_command][list]") {
  const Json list = json_of({"list", "--json", "-"});
  std::vector<std::string> names;
  for (const Json& one : list["cases"]) names.push_back(one["name"]);
  CHECK(names ==
        std::vector<std::string>{"add_rms", "grouped_mul_poly", "mul_poly", "poly", "rms"});
  CHECK_THAT(run_program({"list"}).out, Contains("operators (kernbench bench --case NAME)\n") &&
                                            Contains("RMSNorm: y = x / sqrt(mean(x^2) + eps)"));
}

}  // namespace
}  // namespace kernbench::test::operator_command_test
