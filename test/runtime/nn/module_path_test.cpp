// Errors and profiles say in which module of which something happened.

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/nn/containers.h"
#include "runtime/nn/layers.h"
#include "runtime/simulation/run_log.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::module_path_test {
namespace {

using Catch::Contains;

const TensorOptions kOnOnePe{.dp = DPPolicy::on_one_pe()};

struct MlpImpl : nn::Module {
  MlpImpl(const RuntimeContext& torch, std::int64_t between)
      : up(register_module("up", nn::Linear(torch, 8, 16, kOnOnePe))),
        down(register_module("down", nn::Linear(torch, between, 8, kOnOnePe))) {}
  Tensor forward(const Tensor& x) const { return down(nn::functional::relu(up(x))); }
  nn::Linear up, down;
};
KERNBENCH_MODULE(Mlp);

// Its blocks are called one by one, not the list that they are in.
struct NetImpl : nn::Module {
  NetImpl(const RuntimeContext& torch, std::int64_t between_of_last)
      : blocks(register_module("blocks", nn::Sequential(Mlp(torch, 16), Mlp(torch, 16),
                                                        Mlp(torch, between_of_last)))) {}
  Tensor forward(Tensor x) const {
    for (const auto& block : *blocks) x = block(x);
    return x;
  }
  nn::Sequential blocks;
};
KERNBENCH_MODULE(Net);

TEST_CASE("an error of an operator says in which module it was thrown", "[nn][module]") {
  RuntimeContext torch(small_topology());
  const Tensor x = torch.zeros({4, 8}, kOnOnePe);
  CHECK_THAT(error_of<DeviceError>([&] { nn::Sequential(Mlp(torch, 16), Mlp(torch, 9))(x); }),
             Contains("[KB-F001] ") && Catch::EndsWith("\n  in 1.down (Linear)"));
  CHECK_THAT(error_of<DeviceError>([&] { Net(torch, 9)(x); }),
             Catch::EndsWith("\n  in blocks.2.down (Linear)"));
  CHECK_THAT(error_of<DeviceError>([&] { nn::Linear(torch, 9, 8, kOnOnePe)(x); }),
             Catch::EndsWith("\n  in Linear"));
}

TEST_CASE("an error outside of modules, or after one that was caught, names none", "[nn][module]") {
  RuntimeContext torch(small_topology());
  const Tensor x = torch.zeros({4, 8}, kOnOnePe);
  CHECK_THROWS_AS(nn::Linear(torch, 9, 8, kOnOnePe)(x), DeviceError);
  CHECK_THAT(error_of<DeviceError>([&] { matmul(x, x); }), !Contains("\n  in "));
}

std::vector<std::string> modules_of(const runtime::Profile& profile, const std::string& name) {
  std::vector<std::string> modules;
  for (const runtime::OperationRow& row : profile.by_module) {
    if (row.name == name) modules.push_back(row.module);
  }
  std::ranges::sort(modules);
  return modules;
}

TEST_CASE("a profile tells the operations of modules apart, forward and backward",
          "[nn][module][profiler]") {
  RuntimeContext torch(small_topology(), {.profile = true});
  const Tensor x = torch.zeros({4, 8}, kOnOnePe);
  const Net net(torch, 16);
  net(x).sum().backward();
  torch.ahbm.synchronize();
  const runtime::Profile profile = runtime::make_profile(simulation_of(torch));
  const std::vector<std::string> layers = {"blocks.0.down", "blocks.0.up",   "blocks.1.down",
                                           "blocks.1.up",   "blocks.2.down", "blocks.2.up"};
  CHECK(modules_of(profile, "addmm") == layers);
  CHECK(modules_of(profile, "matmul") == layers);  // of the weights' and inputs' gradients
  CHECK(modules_of(profile, "relu") ==
        std::vector<std::string>{"blocks.0", "blocks.1", "blocks.2"});
  CHECK(modules_of(profile, "sum") == std::vector<std::string>{""});
  CHECK_THAT(runtime::summary(profile), Contains("\naddmm, blocks.1.up "));
  CHECK_THAT(runtime::explain(profile), !Contains("blocks.1.up"));
}

TEST_CASE("a module at the address of one that is gone has paths of its own",
          "[nn][module][profiler]") {
  RuntimeContext torch(small_topology(), {.profile = true});
  const Tensor x = torch.zeros({4, 8}, kOnOnePe);
  std::optional<MlpImpl> mlp;
  for (int i = 0; i < 2; ++i) {
    mlp.emplace(torch, 16);
    mlp->call(x, [&](const Tensor& in) { return mlp->forward(in); });
    torch.ahbm.synchronize();
  }
  CHECK(std::ranges::count_if(simulation_of(torch).run_log()->tensors(), [](const auto& tensor) {
          return tensor.module == "up" && tensor.kind == MemoryKind::parameter;
        }) == 2 * 2);  // weights and biases
}

}  // namespace
}  // namespace kernbench::test::module_path_test
