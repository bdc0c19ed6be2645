// kernbench run --bench gemm.

#include <catch2/catch.hpp>

#include "test/benches/program_json.h"

namespace kernbench::test::gemm_bench_test {

using Catch::Contains;
using Json = nlohmann::ordered_json;

namespace {

ProgramResult run_gemm_bench(const std::vector<std::string>& settings,
                             const std::string& topology = "default") {
  std::vector<std::string> arguments = {"run",    "--bench", "gemm", "--topology",
                                        topology, "--json",  "-"};
  for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
  return run_program(arguments);
}

Json row_of(const std::vector<std::string>& settings) {
  return json_of(run_gemm_bench(settings))["rows"].at(0);
}

}  // namespace

TEST_CASE("a row of gemm has these columns first, in this order", "[cli][gemm]") {
  const Json row = row_of({"m=256", "n=128", "k=64"});
  const std::vector<std::string> wanted = {
      "m",           "n",           "k",         "dtype", "pes",         "time_ns", "tflops",
      "peak_tflops", "utilization", "hbm_bytes", "bound", "roofline_ns", "wrong"};
  std::size_t index = 0;
  for (const auto& [column, value] : row.items()) {
    if (index < wanted.size()) CHECK(column == wanted[index]);
    ++index;
  }
  CHECK(row["m"] == 256);
  CHECK(row["n"] == 128);
  CHECK(row["k"] == 64);
  CHECK(row["dtype"] == "f16");
  CHECK(row["pes"] == 1);
  CHECK(row["wrong"] == 0);
  CHECK(row["time_ns"].get<double>() >= row["roofline_ns"].get<double>());
  CHECK(row["utilization"].get<double>() ==
        Approx(row["tflops"].get<double>() / row["peak_tflops"].get<double>()));
}

TEST_CASE("products of 8-bit elements are exact, at a rate of the topology", "[cli][gemm]") {
  for (const std::string dtype : {"f8e4m3fn", "f8e5m2"}) {
    const Json row = row_of({"m=96", "n=64", "k=200", "dtype=" + dtype, "on=cube"});
    CHECK(row["dtype"] == dtype);
    CHECK(row["wrong"] == 0);
    CHECK(row["hbm_bytes"] == 96 * 200 + 200 * 64 + 2 * 96 * 64);
  }
  const auto time_of = [](const std::string& dtype, const std::string& products) {
    return row_of({"m=512", "n=512", "k=512", "check=0", "dtype=" + dtype,
                   "pe.gemm.f8_per_cell=" + products});
  };
  const Json half = time_of("f8e4m3fn", "1");
  const Json twice = time_of("f8e4m3fn", "2");
  CHECK(twice["peak_tflops"] == 2 * half["peak_tflops"].get<double>());
  CHECK(half["peak_tflops"] == time_of("f16", "2")["peak_tflops"]);
  CHECK(time_of("f16", "1")["time_ns"] == time_of("f16", "2")["time_ns"]);
  CHECK(twice["time_ns"] < 0.6 * half["time_ns"].get<double>());
}

TEST_CASE("the settings of gemm do what they say", "[cli][gemm]") {
  const Json row =
      row_of({"m=300", "n=200", "k=100", "dtype=bf16", "on=cube", "pe=column_wise", "pes=4",
              "dataflow=weight_stationary", "tile_m=64", "tile_n=32", "tile_k=50"});
  CHECK(row["dtype"] == "bf16");
  CHECK(row["pes"] == 4);
  CHECK(row["cut"] == "pe=column_wise");
  CHECK(row["dataflow"] == "weight_stationary");
  CHECK(row["tile_m"] == 64);
  CHECK(row["tile_n"] == 32);
  CHECK(row["tile_k"] == 50);
  CHECK(row["gemm_count"] == 4 * 5 * 2 * 2);  // 4 PEs, [300, 50] each
  CHECK(row["hbm_bytes"] == 2 * (300 * 100 + 100 * 200 + 300 * 200));
  CHECK(row["wrong"] == 0);
  CHECK(row_of({"check=false"})["wrong"].is_null());
}

TEST_CASE("the table of gemm is for people", "[cli][gemm]") {
  const ProgramResult result = run_program({"run", "--bench", "gemm", "--set", "m=100"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Contains("array         32 x 32, output_stationary, 1 PE of 1"));
  CHECK_THAT(result.out, Contains("(TFLOP/s)") && Contains("roofline") && Contains("#wrong"));
}

TEST_CASE("gemm refuses what cannot be", "[cli][gemm][errors]") {
  const auto [setting, exit_code, text] = GENERATE(table<std::string, int, std::string>({
      {"m=0", 2, "[KB-U012] --set m:"},
      {"k=-1", 2, "[KB-U012] --set k:"},
      {"n=2147483648", 2, "[KB-U012] --set n:"},
      {"pes=9", 2, "[KB-U012] --set pes:"},
      {"on=cubes", 2, "[KB-U012] --set on: 'cubes' is not known; did you mean 'cube'?"},
      {"cube=replicate", 2, "[KB-U012] --set cube: 'replicate' is not known"},
      {"dtype=f64", 2, "[KB-U012] --set dtype: 'f64' is not known"},
      {"m=2000000000", 22, "[KB-M010] out of HBM: a [2000000000, 1024]"},
  }));
  const ProgramResult result = run_gemm_bench({setting});
  CAPTURE(setting);
  CHECK(result.exit_code == exit_code);
  CHECK_THAT(result.err, Contains(text));
}

TEST_CASE("a tile that is larger than the product is cut, and said to be", "[cli][gemm]") {
  const ProgramResult result = run_gemm_bench({"m=64", "n=64", "k=64", "tile_m=1000000"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.err, Catch::Contains("#   tile_m        1000000 is cut to 64, the most that "
                                         "fits"));
  CHECK_THAT(result.err, !Catch::Contains("tile_n "));
}

// 64 x 32 x 512 on each of two PEs, in folds of 32 x 32: sides of 32 and 64, of 32, and of 512 cut
// into up to 16 parts.
TEST_CASE("a search for tiles finds none slower than the one that is chosen", "[cli][gemm]") {
  const std::vector<std::string> product = {"m=64", "n=64", "k=512", "on=cube"};
  const Json chosen = row_of(product);
  const auto with = [&](const std::string& setting) {
    std::vector<std::string> settings = product;
    settings.push_back(setting);
    settings.emplace_back("tile=search");
    return row_of(settings);
  };
  const Json searched = with("check=true");
  CHECK_FALSE(chosen.contains("chosen_time_ns"));
  CHECK(searched["chosen_time_ns"] == chosen["time_ns"]);
  CHECK(searched["time_ns"] <= chosen["time_ns"]);
  CHECK(searched["chosen_over_best"].get<double>() ==
        Approx(chosen["time_ns"].get<double>() / searched["time_ns"].get<double>()));
  CHECK(searched["tiles"].get<int>() > searched["tiles_simulated"].get<int>());
  CHECK(searched["tiles_simulated"].get<int>() > 0);
  CHECK(searched["wrong"] == 0);
  CHECK(with("tile_k=100")["tile_k"] == 100);
}

TEST_CASE("a tile that does not fit scratch is refused", "[cli][gemm][errors]") {
  const ProgramResult result = run_gemm_bench({"tile_m=1024", "tile_n=1024"});
  CHECK(result.exit_code == 22);
  CHECK_THAT(result.err, Contains("[KB-K035] tl.composite in kernel 'gemm' on sip0.cube0.pe0"));
}

}  // namespace kernbench::test::gemm_bench_test
