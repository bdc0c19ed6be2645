// kernbench run --bench kernels: bytes by hand, and no pass below its roofline.

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "test/benches/program_json.h"
#include "test/support/error_text.h"

namespace kernbench::test::kernels_bench_test {

using Json = nlohmann::ordered_json;

namespace {

ProgramResult run_kernels(const std::string& topology, const std::vector<std::string>& settings) {
  std::vector<std::string> arguments = {"run",    "--bench", "kernels", "--topology",
                                        topology, "--json",  "-"};
  for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
  return run_program(arguments);
}

Json rows_of(const std::string& topology, const std::vector<std::string>& settings) {
  const Json report = json_of(run_kernels(topology, settings));
  CHECK(report["ok"] == true);
  return report["rows"];
}

}  // namespace

// 512 rows of 512 bf16 on 4 PEs: what has to cross HBM, in multiples of an operand's 512 KiB.
TEST_CASE("each pass moves its operands and results once", "[cli][kernels]") {
  constexpr double kSize = 512 * 1024;
  constexpr double kRow = 1024;     // what all PEs have of a vector along the columns, each
  constexpr double kIds = 4 * 512;  // f32
  const std::map<std::pair<std::string, std::string>, double> expected = {
      {{"softmax", "forward"}, 2 * kSize},
      {{"softmax", "backward"}, 3 * kSize},
      {{"gelu", "forward"}, 2 * kSize},
      {{"gelu", "backward"}, 3 * kSize},
      {{"silu", "backward"}, 3 * kSize},
      {{"rms_norm", "forward"}, 2 * kSize + 4 * kRow},
      {{"rms_norm", "backward"}, 3 * kSize + 8 * kRow},
      {{"layer_norm", "forward"}, 2 * kSize + 8 * kRow},
      {{"layer_norm", "backward"}, 3 * kSize + 12 * kRow},
      {{"dropout", "forward"}, 3 * kSize},
      {{"embedding", "forward"}, 2 * kSize + kIds},
      {{"adamw", "step"}, 7 * kSize},
      {{"sgd", "step"}, 5 * kSize},
      {{"bucket", "pack"}, 2 * kSize},
      {{"bucket", "unpack"}, 2 * kSize}};
  std::map<std::pair<std::string, std::string>, double> moved;
  for (const Json& row : rows_of("default", {"size=512Ki", "columns=512", "cubes=1", "pes=4"})) {
    moved[{row["function"], row["pass"]}] = row["hbm_bytes"];
    CHECK(row["share"] > 0.1);
    CHECK(row["share"] <= 1);
  }
  CHECK(moved.size() == 23);
  for (const auto& [pass, bytes] : expected) {
    CAPTURE(pass.first, pass.second);
    CHECK(moved.at(pass) == bytes);
  }
}

// HBM gives 92.16 GB/s a cube.
TEST_CASE("the roofline is that of the PEs that are used", "[cli][kernels]") {
  const auto roofline = [](const std::string& cubes) {
    return rows_of("default", {"function=softmax", "size=1Mi", "cubes=" + cubes})[0]["roofline_ns"]
        .get<double>();
  };
  CHECK(roofline("1") == Approx(2 * 1048576 / 92.16).epsilon(1e-6));
  CHECK(roofline("16") == Approx(2 * 1048576 / 92.16 / 16).epsilon(1e-6));
}

// 2048 rows of 32 heads of 128, half of the scores: 2 products of 2048 x 2048 x 4096 / 2, and 5
// backward.
TEST_CASE("attention is bound by PE_GEMM's peak, of which it has 80 %", "[cli][kernels]") {
  const Json rows = rows_of("default", {"function=attention", "size=16Mi"});
  REQUIRE(rows.size() == 2);
  const double product = 2048.0 * 2048 * 4096 / (128 * 2 * 1024 * 1.5);
  CHECK(rows[0]["roofline_ns"].get<double>() == Approx(2 * product).epsilon(1e-6));
  CHECK(rows[1]["roofline_ns"].get<double>() == Approx(5 * product).epsilon(1e-6));
  for (const Json& row : rows) {
    CHECK(row["bound"] == "compute");
    CHECK(row["share"] >= 0.8);
    CHECK(row["kernels"] == 1);
  }
}

TEST_CASE("on all PEs of a SIP each pass of 16 MiB has 80 % of its roofline", "[cli][kernels]") {
  const Json rows = rows_of("default", {"size=16Mi"});
  CHECK(rows.size() == 23);
  for (const Json& row : rows) {
    CAPTURE(row["function"], row["pass"]);
    CHECK(row["share"] >= 0.8);
  }
}

// Rows twice as long as a block of scratch, whose gradients take one pass still: x, dy and dx cross
// HBM once, and each PE's weight and its gradient.
TEST_CASE("the gradients of long rows take one pass", "[cli][kernels]") {
  const Json rows = rows_of("default", {"function=rms_norm", "size=16Mi", "columns=16384"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[1]["hbm_bytes"] == 3 * (16 << 20) + 128 * 2 * 2 * 16384);
}

TEST_CASE("unknown functions and sizes below a row are refused", "[cli][kernels][error]") {
  const ProgramResult unknown = run_kernels("tiny", {"function=softmx"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, Says("KB-U012", "'softmx'", "did you mean 'softmax'"));
  const ProgramResult small = run_kernels("tiny", {"size=16"});
  CHECK(small.exit_code == 2);
  CHECK_THAT(small.err, Says("KB-U012", "--set size: 16 not in [8192"));
}

}  // namespace kernbench::test::kernels_bench_test
