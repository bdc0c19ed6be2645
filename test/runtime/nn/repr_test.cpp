// Tests that modules are printed as the real torch prints them (test/golden/torch_modules.py).

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <sstream>

#include "runtime/nn/convolution.h"
#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::repr_test {
namespace {

std::map<std::string, std::string> torch_reprs() {
  std::ifstream file(KERNBENCH_ROOT "/test/golden/torch_modules.txt");
  std::map<std::string, std::string> reprs;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("repr ")) continue;
    std::string& text = reprs[line.substr(5)];
    while (std::getline(file, line) && !line.empty()) text += text.empty() ? line : "\n" + line;
  }
  return reprs;
}

struct NetImpl : nn::Module {
  explicit NetImpl(const RuntimeContext& torch) {
    register_module("up", nn::Linear(torch, 4, 8));
    register_module("blocks", nn::ModuleList(nn::Sequential(nn::Linear(torch, 8, 8), nn::ReLU()),
                                             nn::Identity()));
  }
  std::string extra_repr() const override { return "scale=2"; }
};
KERNBENCH_MODULE(Net);

struct LinesImpl : nn::Module {
  std::string extra_repr() const override { return "a=1\nb=2"; }
};
KERNBENCH_MODULE(Lines);

std::map<std::string, nn::AnyModule> equal_modules(const RuntimeContext& torch) {
  const auto conv1d = [&](const nn::Conv1dOptions& options) { return nn::Conv1d(torch, options); };
  const auto conv2d = [&](const nn::Conv2dOptions& options) { return nn::Conv2d(torch, options); };
  using nn::Pair;
  return {
      {"linear", nn::Linear(torch, 3, 4)},
      {"linear_no_bias", nn::Linear(torch, nn::LinearOptions(3, 4).bias(false))},
      {"embedding", nn::Embedding(torch, 10, 3)},
      {"layer_norm", nn::LayerNorm(torch, 8)},
      {"layer_norm_plain",
       nn::LayerNorm(torch, nn::LayerNormOptions(8).eps(1e-6).elementwise_affine(false))},
      {"dropout", nn::Dropout()},
      {"dropout_1", nn::Dropout(1.0)},
      {"gelu", nn::GELU()},
      {"relu", nn::ReLU()},
      {"silu", nn::SiLU()},
      {"sigmoid", nn::Sigmoid()},
      {"tanh", nn::Tanh()},
      {"identity", nn::Identity()},
      {"softmax", nn::Softmax(-1)},
      {"log_softmax", nn::LogSoftmax(1)},
      {"flatten", nn::Flatten()},
      {"mse_loss", nn::MSELoss()},
      {"l1_loss", nn::L1Loss()},
      {"bce_with_logits_loss", nn::BCEWithLogitsLoss()},
      {"cross_entropy_loss", nn::CrossEntropyLoss()},
      {"nll_loss", nn::NLLLoss()},
      {"conv1d", conv1d({4, 8, 3})},
      {"conv1d_all",
       conv1d(nn::Conv1dOptions(4, 8, 3).stride(2).padding(1).dilation(2).groups(2).bias(false))},
      {"conv2d", conv2d({3, 8, 3})},
      {"conv2d_all", conv2d(nn::Conv2dOptions(4, 8, Pair(3, 5))
                                .stride(Pair(2, 1))
                                .padding(Pair(1, 0))
                                .dilation(Pair(1, 2))
                                .groups(4)
                                .bias(false))},
      {"batch_norm_1d", nn::BatchNorm1d(torch, 8)},
      {"batch_norm_2d",
       nn::BatchNorm2d(
           torch,
           nn::BatchNorm2dOptions(8).eps(1e-3).momentum(0.25).affine(false).track_running_stats(
               false))},
      {"group_norm", nn::GroupNorm(torch, nn::GroupNormOptions(2, 8).affine(false))},
      {"max_pool", nn::MaxPool2d(3, {.stride = 2, .padding = 1})},
      {"max_pool_plain", nn::MaxPool2d(Pair(3, 2))},
      {"avg_pool", nn::AvgPool2d(3, {.stride = 2})},
      {"adaptive_pool", nn::AdaptiveAvgPool2d(Pair(2, 3))},
      {"adaptive_pool_1", nn::AdaptiveAvgPool2d(1)},
      {"attention", nn::MultiheadAttention(torch, 8, 2)},
      {"sequential_empty", nn::Sequential()},
      {"sequential",
       nn::Sequential(nn::Linear(torch, 2, 3), nn::ReLU(), nn::Sequential(nn::Dropout(0.25)))},
      {"list_empty", nn::ModuleList()},
      {"list", nn::ModuleList(nn::Linear(torch, 2, 3), nn::Tanh())},
      {"dict", nn::ModuleDict({{"b", nn::Linear(torch, 2, 3)}, {"a", nn::ReLU()}})},
      {"net", Net(torch)},
      {"lines", Lines()},
  };
}

TEST_CASE("modules are printed as torch prints equal ones", "[nn]") {
  OperatorsUnderTest dut;
  const auto ours = equal_modules(dut.torch);
  const auto torchs = torch_reprs();
  CHECK(ours.size() == torchs.size());
  for (const auto& [name, text] : torchs) {
    INFO(name);
    const auto module = ours.find(name);
    REQUIRE(module != ours.end());
    CHECK(fmt::format("{}", module->second) == text);
    std::ostringstream out;
    out << module->second;
    CHECK(out.str() == text);
    CHECK(to_string(*module->second) == text);
  }
}

}  // namespace
}  // namespace kernbench::test::repr_test
