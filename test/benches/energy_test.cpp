// kernbench run --energy: the energy of what a bench times, by unit, in its rows and by itself.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "test/benches/program_json.h"
#include "test/benches/program_under_test.h"

namespace kernbench::test::bench_energy_test {
namespace {

using Json = nlohmann::ordered_json;

ProgramResult run_bench(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.begin(), {"run", "--bench"});
  words.insert(words.end(), more.begin(), more.end());
  return run_program(words);
}

Json report_of(const std::vector<std::string>& words, const std::vector<std::string>& more) {
  const TemporaryFolder folder;
  std::vector<std::string> with_file = more;
  with_file.insert(with_file.end(), {"--json", folder.path("report.json")});
  const ProgramResult result = run_bench(words, with_file);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return Json::parse(folder.read("report.json"));
}

const std::vector<std::string> kProduct = {"gemm", "--topology", "tiny",  "--set",
                                           "m=64", "n=96",       "k=128", "on=pe"};

// One tile of f16: a, b and c pass HBM, the NoC and TCM once each.  Of the folds of c, 32 x 32,
// three columns read all of a and two rows all of b.
TEST_CASE("a GEMM's energy is its FLOPs and bytes, times what each takes", "[cli][energy]") {
  const Json report = report_of(kProduct, {"tile_m=64", "tile_n=96", "tile_k=128", "--energy"});
  constexpr double kFlops = 2.0 * 64 * 96 * 128;
  constexpr double kA = 64 * 128 * 2;
  constexpr double kB = 128 * 96 * 2;
  constexpr double kC = 64 * 96 * 2;
  constexpr double kMoved = kA + kB + kC;
  constexpr double kOfArray = 3 * kA + 2 * kB + kC;
  constexpr double kNews = 64;  // that the kernel has ended
  const Json& row = report["rows"][0];
  CAPTURE(report.dump(2));
  CHECK(row["gemm_f16_uj"] == kFlops * 250 / 1e9);
  CHECK(row["hbm_uj"] == kMoved * 8 * 3900 / 1e9);
  CHECK(row["noc_uj"] == (kMoved + kNews) * 8 * 300 / 1e9);
  CHECK(report["energy"]["units"]["gemm_f16"]["flop"] == kFlops);
  CHECK(report["energy"]["units"]["hbm"]["bytes"] == kMoved);
  CHECK(report["energy"]["units"]["tcm"]["bytes"] == kMoved + kOfArray);
  CHECK(row["tcm_uj"] == (kMoved + kOfArray) * 8 * 220 / 1e9);
  CHECK(row["sip_link_uj"] == 0);
  double sum = 0;
  for (const auto& [unit, energy] : report["energy"]["units"].items()) {
    sum += energy["uj"].get<double>();
    CHECK(row[unit + "_uj"] == energy["uj"]);
  }
  CHECK(row["energy_uj"].get<double>() == Approx(sum));
  CHECK(row["power_w"].get<double>() ==
        Approx(sum / (report["energy"]["timed_ns"].get<double>() / 1e3)));
  CHECK(report["energy"]["timed_ns"] == row["time_ns"]);
}

TEST_CASE(
    "twice the energy of a byte is twice the energy of its unit, and twice the bandwidth none",
    "[cli][energy]") {
  const Json once = report_of(kProduct, {"--energy"})["rows"][0];
  const Json twice = report_of(kProduct, {"energy.hbm=7.8 pJ/bit", "--energy"})["rows"][0];
  CHECK(twice["hbm_uj"].get<double>() == 2 * once["hbm_uj"].get<double>());
  CHECK(twice["tcm_uj"] == once["tcm_uj"]);
  const Json faster = report_of(kProduct, {"cube.hbm.bandwidth=102.4 GB/s",
                                           "cube.noc.bandwidth=512 GB/s", "--energy"})["rows"][0];
  CHECK(faster["time_ns"].get<double>() < once["time_ns"].get<double>());
  CHECK(faster["energy_uj"] == once["energy_uj"]);
  CHECK(faster["power_w"].get<double>() > once["power_w"].get<double>());
}

TEST_CASE("the energies of rows add up to that of the run, in points, grids and processes",
          "[cli][energy]") {
  using Words = std::vector<std::string>;
  const Words words = GENERATE(
      Words{"ccl-allreduce", "--topology", "tiny", "--set", "n_elem=64,4096"},
      Words{"collectives", "--topology", "tiny", "--set", "begin=4Ki", "end=16Ki",
            "collective=all_gather"},
      Words{"gemm", "--topology", "tiny", "--set", "m=32,64", "n=64", "k=64"},
      Words{"kernels", "--topology", "tiny", "--set", "function=gelu", "size=8Ki"},
      Words{"tp-mlp", "--topology", "tiny", "--set", "tp=2"}, Words{"ipcq", "--topology", "tiny"},
      Words{"train", "--topology", "tiny", "--set", "steps=2", "hidden=16"});
  CAPTURE(words);
  const Json report = report_of(words, {"--energy", "--jobs", "2"});
  double sum = 0;
  for (const Json& row : report["rows"]) {
    if (row.contains("energy_uj")) sum += row["energy_uj"].get<double>();
  }
  CHECK(sum > 0);
  CHECK(sum == Approx(report["energy"]["uj"].get<double>()));
  CHECK(report_of(words, {"--energy", "--jobs", "1"})["rows"] == report["rows"]);
}

TEST_CASE("without --energy nothing says a word of it, and times are the same", "[cli][energy]") {
  const Json without = report_of(kProduct, {});
  CHECK(without.dump().find("_uj") == std::string::npos);
  CHECK_FALSE(without.contains("energy"));
  const Json with = report_of(kProduct, {"--energy"});
  CHECK(with["engine"]["fingerprint"] == without["engine"]["fingerprint"]);
  CHECK(with["rows"][0]["time_ns"] == without["rows"][0]["time_ns"]);
}

TEST_CASE("a machine without energies is refused, and one key is enough", "[cli][energy][errors]") {
  const std::vector<std::string> words = {"ccl-allreduce", "--topology", "zero_overhead", "--set",
                                          "n_elem=64"};
  const ProgramResult refused = run_bench(words, {"--energy"});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("--energy: the topology 'zero_overhead' does not say") !=
        std::string::npos);
  const Json report = report_of(words, {"energy.sip_link=1 pJ/B", "--energy"});
  CHECK(report["energy"]["units"].size() == 1);
  CHECK(report["energy"]["uj"].get<double>() > 0);
}

}  // namespace
}  // namespace kernbench::test::bench_energy_test
