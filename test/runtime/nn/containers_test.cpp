// Tests modules that hold others, of one kind or of several.

#include "runtime/nn/containers.h"

#include "runtime/nn/convolution.h"
#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::containers_test {
namespace {

using Names = std::vector<std::string>;

// y = a x, with a buffer.
struct ScaleImpl : nn::Module {
  explicit ScaleImpl(const Tensor& by) : factor(register_buffer("factor", by)) {}
  Tensor forward(const Tensor& x) const { return x * factor; }
  Tensor factor;
};
KERNBENCH_MODULE(Scale);

// Two tensors in.
struct SumImpl : nn::Module {
  Tensor forward(const Tensor& a, const Tensor& b) const { return a + b; }
};
KERNBENCH_MODULE(Sum);

TEST_CASE("a Sequential takes holders, functions and names", "[nn]") {
  OperatorsUnderTest dut;
  nn::Sequential net;
  CHECK(net->is_empty());
  net->push_back(Scale(dut.tensor({1}, {2})));
  net->push_back(nn::Functional([](const Tensor& x) { return x + 1.0; }));
  net->push_back("clamped", nn::Functional(nn::functional::leaky_relu, 0.5));
  net->push_back(nn::ReLU());
  CHECK(net(dut.tensor({3}, {-4, -1, 3})).to_vector() == Floats{0, 0, 7});
  CHECK(net->named_children().keys() == Names{"0", "1", "clamped", "3"});
  CHECK(net->size() == 4);
  CHECK(net[2](dut.tensor({1}, {-4})).item() == -2);
  CHECK_THAT(refusal([&] { net[4]; }), Says("KB-A010", "index 4 is out of range"));
  CHECK_THAT(refusal([&] { net->push_back("clamped", nn::ReLU()); }),
             Says("KB-A010", "Submodule 'clamped' already defined"));
  const nn::Sequential named({{"up", nn::Linear(dut.torch, 2, 3)}, {"activation", nn::ReLU()}});
  CHECK(named->named_parameters().keys() == Names{"up.weight", "up.bias"});
  CHECK(nn::Sequential(nn::Linear(dut.torch, 2, 3), named)->size() == 2);
}

TEST_CASE("a list of several kinds hands out modules, as their own class where one asks", "[nn]") {
  OperatorsUnderTest dut;
  nn::ModuleList list(nn::Linear(dut.torch, 2, 3), nn::ReLU());
  list->push_back(nn::LayerNorm(dut.torch, 3));
  list->extend(std::vector<nn::AnyModule>{Sum()});
  Names names;
  for (const nn::AnyModule& module : *list) names.push_back(module->name());
  CHECK(names == Names{"Linear", "ReLU", "LayerNorm", "Sum"});
  CHECK(list[0]->as<nn::Linear>()->weight.shape() == Shape{3, 2});
  CHECK(list[0]->as<nn::LinearImpl>() == list[0]->as<nn::Linear>());
  CHECK(list[1]->as<nn::Linear>() == nullptr);
  CHECK(list[1](dut.tensor({2}, {-1, 1})).to_vector() == Floats{0, 1});
  CHECK_THAT(refusal([&] { list[3](dut.tensor({1}, {1})); }),
             Says("KB-A010", "forward() of this Sum", "as<...>()"));
  CHECK_THAT(refusal([&] { list[9]; }), Says("KB-A010", "ModuleList", "index 9"));
  CHECK(list->parameters().size() == 4);
  nn::ModuleList<nn::Linear> same(nn::Linear(dut.torch, 2, 2), nn::Linear(dut.torch, 2, 4));
  CHECK(same[1]->weight.shape() == Shape{4, 2});
}

TEST_CASE("a dictionary of several kinds keeps the order of insertion", "[nn]") {
  OperatorsUnderTest dut;
  nn::ModuleDict heads({{"small", nn::Linear(dut.torch, 3, 2)}, {"act", nn::ReLU()}});
  heads->insert("large", nn::Sequential(nn::Linear(dut.torch, 3, 4)));
  CHECK(heads->keys() == Names{"small", "act", "large"});
  CHECK(heads["large"](dut.torch.zeros({1, 3})).shape() == Shape{1, 4});
  CHECK(heads["small"]->as<nn::Linear>() != nullptr);
  Names names;
  for (const auto& [name, module] : *heads) names.push_back(name + module->name());
  CHECK(names == Names{"smallLinear", "actReLU", "largeSequential"});
}

TEST_CASE("a module is no part of itself, and a handle to nothing is no module", "[nn][errors]") {
  OperatorsUnderTest dut;
  const auto module = std::make_shared<SumImpl>();
  const auto inner = std::make_shared<SumImpl>();
  CHECK_THAT(refusal([&] { module->register_module("self", module); }),
             Says("KB-A010", "register_module 'self'", "a part of itself"));
  module->register_module("inner", nn::Sequential(Sum(inner), nn::ReLU()));
  CHECK_THAT(refusal([&] { inner->register_module("outer", module); }),
             Says("KB-A010", "register_module 'outer'", "Sum", "a part of itself"));
  CHECK(inner->children().empty());
  CHECK_THAT(refusal([&] { module->register_module("n", nn::Linear(nullptr)); }),
             Says("KB-A010", "Accessing empty ModuleHolder", "'n'", "Linear(torch, 8, 4)"));
  CHECK_THAT(refusal([&] { nn::Sequential(nn::Linear(nullptr)); }), Says("KB-A010", "'0'"));
  CHECK_THAT(refusal([&] { module->register_parameter("w", Tensor()); }),
             Says("KB-A010", "register_parameter 'w'"));
  CHECK_THAT(refusal([&] { module->register_buffer("b", Tensor()); }),
             Says("KB-A010", "register_buffer 'b'"));
  CHECK(module->parameters().empty());
}

}  // namespace
}  // namespace kernbench::test::containers_test
