// A run is the same wherever it runs: times, fingerprints and every printed digit of losses, which
// depend on the order and the rounding of each addition.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <locale>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "runtime/torch/runtime_options.h"
#include "sim_engine/topology/topology.h"
#include "test/benches/program_under_test.h"

namespace kernbench::test::environments_test {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

const std::vector<std::string> kTrain{"run",  "--bench", "train",  "--topology",
                                      "tiny", "--set",   "steps=5"};
const std::vector<std::string> kSweep{
    "run",       "--bench",  "collectives",    "--topology", "torus_2d_2x3", "--set",
    "begin=1Ki", "end=8Ki", "collective=all", "redop=avg",  "factor=8"};

// The output without what the host's speed decides.
std::string output_of(std::vector<std::string> arguments, const Variables& environment,
                      std::vector<std::string> wrapper = {}) {
  ProgramOptions options{.environment = environment};
  if (!wrapper.empty()) {
    options.program = wrapper.front();
    wrapper.erase(wrapper.begin());
    wrapper.push_back(KERNBENCH_PROGRAM);
    arguments.insert(arguments.begin(), wrapper.begin(), wrapper.end());
  }
  const ProgramResult result = run_program(arguments, options);
  CHECK(result.exit_code == 0);
  return std::regex_replace(result.out, std::regex("#   wall .*\n"), "");
}

// A container may refuse to let a process turn off the randomization of addresses.
bool can_run(const std::vector<std::string>& wrapper) {
  std::vector<std::string> arguments(wrapper.begin() + 1, wrapper.end());
  arguments.emplace_back("/bin/true");
  return run_program(arguments, {.program = wrapper.front()}).exit_code == 0;
}

TEST_CASE("a run is the same in every environment", "[benches][determinism]") {
  const auto& command = GENERATE(kTrain, kSweep);
  const std::string usual = output_of(command, {});
  CHECK_THAT(usual, Catch::Contains("fingerprint"));
  const std::vector<std::pair<const char*, Variables>> environments = {
      {"memory that is not zero", {{"MALLOC_PERTURB_", "165"}}},
      {"another allocator's ways",
       {{"MALLOC_ARENA_MAX", "1"},
        {"GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.mmap_threshold=4096"}}},
      {"a C library that knows no AVX",
       {{"GLIBC_TUNABLES",
         "glibc.cpu.hwcaps=-AVX2_Usable,-AVX_Usable,-FMA_Usable,-AVX2,-AVX,-FMA"}}},
      {"another locale", {{"LC_ALL", "C.UTF-8"}, {"LANG", "tr_TR.UTF-8"}, {"TZ", "Asia/Seoul"}}},
      {"a large environment", {{"KERNBENCH_NOTHING", std::string(100'000, 'x')}}}};
  for (const auto& [name, variables] : environments) {
    INFO(name);
    CHECK(output_of(command, variables) == usual);
  }
  for (const std::vector<std::string>& wrapper :
       {std::vector<std::string>{"/usr/bin/env", "setarch", "-R"},
        {"/usr/bin/env", "taskset", "-c", "0"}}) {
    CAPTURE(wrapper[1]);
    if (!can_run(wrapper)) WARN("this host refuses it");
    if (can_run(wrapper)) CHECK(output_of(command, {}, wrapper) == usual);
  }
}

// 1.234.567,5
struct Commas : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

struct Result {
  std::vector<float> sums;
  std::string described;

  bool operator==(const Result&) const = default;
};

// On its own number of threads, which evaluate the values.
Result run_in_process(int threads) {
  RuntimeContext torch(Topology::load(KERNBENCH_ROOT "/topologies/ring_1d_6.yaml"),
                       {.evaluation_threads = threads});
  torch.distributed.init_process_group("ahbm");
  Result result;
  run_on_devices(torch, 6, [&](int rank) {
    const Tensor x = torch.full({90, 60}, 0.1F + static_cast<float>(rank));
    const Tensor y = matmul(x, x, {.transpose_b = true});
    torch.distributed.all_reduce(y);
    if (rank == 0) {
      std::ostringstream text;
      text << y;
      result = {y.softmax(-1).to_vector(), text.str()};
    }
  });
  return result;
}

TEST_CASE("a run in a program is the same with decimal commas, and on any number of threads",
          "[benches][determinism]") {
  const Result usual = run_in_process(1);
  CHECK(run_in_process(2) == usual);
  CHECK(run_in_process(7) == usual);
  const std::locale before = std::locale::global(std::locale(std::locale(), new Commas));
  const Result with_commas = run_in_process(1);
  std::locale::global(before);
  CHECK(with_commas == usual);
}

}  // namespace
}  // namespace kernbench::test::environments_test
