// No command prints a line that is longer than a terminal's window is wide.

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>

#include "sim_engine/base/line_width.h"
#include "test/benches/program_under_test.h"

namespace kernbench::test::cli_width_test {
namespace {

using Arguments = std::vector<std::string>;

// Counts characters of UTF-8.
std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }));
}

void check_width(const Arguments& arguments) {
  std::string command;
  for (const std::string& word : arguments) command += word + ' ';
  const ProgramResult result = run_program(arguments);
  CAPTURE(command, result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.size() > 100);
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(width_of(line) <= kLineWidth);
  }
}

void check_bench(const std::string& bench, const std::string& topology, const Arguments& settings,
                 const Arguments& more = {}) {
  Arguments arguments = {"run", "--bench", bench, "--topology", topology};
  if (!settings.empty()) arguments.push_back("--set");
  arguments.insert(arguments.end(), settings.begin(), settings.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  check_width(arguments);
}

}  // namespace

TEST_CASE("tables of benches are at most 120 columns wide", "[cli][width][exhaustive]") {
  const TemporaryFolder folder;
  const std::string csv = folder.write("times.csv", "bytes,all_reduce_us\n1024,13.12\n");
  check_bench("calibrate", "tiny", {"csv=" + csv});
  check_bench("ccl-allreduce", "tiny", {"n_elem=48"}, {"--explain", "--summary"});
  check_bench("collectives", "tiny", {"collective=all", "end=1Ki"});
  check_bench("collectives", "ring_1d_6", {"groups=div:3", "end=64"});
  check_bench("ddp", "tiny",
              {"layers=1", "hidden=32", "vocab=64", "seq=16", "batch=1", "scheme=ddp,zero1,fsdp2"});
  check_bench("plan", "tiny", {"world=4", "layers=6", "hidden=32", "vocab=64", "seq=16"});
  check_bench("gemm", "tiny", {"m=64", "n=64", "k=64"});
  check_bench("ipcq", "tiny", {"messages=8"});
  check_bench("milestone-1h-ccl", "default", {"n_elem=64"}, {"--out", folder.path("o")});
  check_bench("milestone-1h-gemm", "tiny", {"families=gemv", "on=pe"},
              {"--out", folder.path("gemm")});
  check_bench("numerics", "tiny", {"ranks=3", "bytes=1Ki"});
  check_bench("overlap", "tiny", {"bytes=64Ki", "gemm=64", "loads=4"});
  check_bench("tp-mlp", "tiny", {"tokens=16", "hidden=32", "tp=1,2"});
  check_bench("tp-transformer", "tiny", {"seq=16", "hidden=32", "heads=2", "tp=2"}, {"--explain"});
  check_bench("train", "tiny", {"steps=3"});
}

TEST_CASE("grids and their like are at most 120 columns wide", "[cli][width][exhaustive]") {
  check_bench("collectives", "tiny", {"end=16", "depth=1,2"});
  check_bench(
      "ddp", "tiny",
      {"layers=1", "hidden=32", "vocab=64", "seq=16", "batch=1", "system.sip_link.latency=1,2 us"});
  check_width({"whatif", "--bench", "ccl-allreduce", "--topology", "tiny", "--set", "n_elem=48"});
  const TemporaryFolder folder;
  check_width({"bench", "--case", "rms", "--topology", "tiny", "--save-path", folder.path("o")});
}

TEST_CASE("help and lists are at most 120 columns wide", "[cli][width]") {
  for (const Arguments& arguments :
       {Arguments{"list"},
        {"keys"},
        {"errors"},
        {"errors", "KB-A010", "KB-R001"},
        {"--help-all"},
        {"run", "--help"},
        {"bench", "--help"},
        {"whatif", "--help"},
        {"plan", "--help"},
        {"probe", "choose", "--topology", "torus_2d_2x3"},
        {"probe", "path", "--from", "sip0.cube0.pe0", "--to", "sip1.cube0.pe0", "--bytes", "64KiB"},
        {"probe", "order", "--topology", "default", "--algorithm", "intercube_allreduce", "--cube",
         "partial", "--bytes", "4KiB"},
        {"probe", "gemm", "--m", "64", "--n", "64", "--k", "64"},
        {"probe", "bound", "--collective", "all_reduce", "--bytes", "1MiB"}}) {
    check_width(arguments);
  }
}

}  // namespace kernbench::test::cli_width_test
