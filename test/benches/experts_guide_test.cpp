// The guide "Experts on several ranks": its commands print what it shows, and its code runs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "benches/bench/inputs.h"
#include "runtime/expert_parallel/moe.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/benches/program_under_test.h"
#include "test/support/guide.h"

namespace kernbench::test::experts_guide_test {
namespace {

namespace kb = kernbench;

const Guide kGuide = {KERNBENCH_ROOT "/benches/moe/experts-on-several-ranks.md",
                      KERNBENCH_ROOT "/benches/moe/experts-on-several-ranks.ko.md",
                      {KERNBENCH_ROOT "/test/benches/experts_guide_test.cpp"}};

// guide: begin
kb::Tensor run_experts(kb::RuntimeContext& torch, const kb::distributed::ProcessGroup& ep,
                       const kb::Tensor& x) {
  const kb::moe::MoEOptions options{.dim = 512,
                                    .hidden_dim = 256,
                                    .num_experts = 16,
                                    .router = {.top_k = 2, .route_norm = true},
                                    .dispatch = {.group = ep}};
  kb::nn::MoE moe(torch, options, {.dp = kb::DPPolicy::shared()});
  return moe(x);
}
// guide: end

TEST_CASE("the Korean guide to experts shows the same", "[guide][moe]") {
  check_translation(kGuide);
}

TEST_CASE("the code of the guide to experts runs", "[guide][moe]") {
  check_code(kGuide, 1);
  kb::RuntimeContext torch(with_sips(benches::load_topology("tiny"), 2), {.data = false});
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, 2, [&](int) {
    const auto mesh = torch.distributed.init_device_mesh("ahbm", {2}, {"ep"});
    const kb::Tensor x = torch.zeros({64, 512}, {.dp = {kb::Shard::row_wise, kb::Shard::row_wise}});
    const kb::Tensor y = run_experts(torch, mesh.get_group(), x);
    CHECK(y.shape() == x.shape());
  });
}

TEST_CASE("the commands in the guide to experts print what it shows", "[guide][moe]") {
  const TemporaryFolder folder;
  const std::string programs = std::filesystem::path(KERNBENCH_PROGRAM).parent_path();
  check_commands(kGuide, 4, [&](const std::vector<std::string>& words) {
    const ProgramResult result =
        run_program({"-c", fmt::format("PATH='{}':$PATH; {}", programs, fmt::join(words, " "))},
                    {.program = "/bin/sh", .folder = folder.path("")});
    return result.out + result.err;
  });
}

}  // namespace
}  // namespace kernbench::test::experts_guide_test
