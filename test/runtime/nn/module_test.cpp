#include "runtime/nn/module.h"

#include <algorithm>
#include <cmath>

#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::module_test {
namespace {

struct NetImpl : nn::Module {
  explicit NetImpl(const RuntimeContext& torch, const TensorOptions& tensors = {})
      : up(register_module("up", nn::Linear(torch, 3, 4, tensors))),
        norm(register_module("norm", nn::LayerNorm(torch, 4, tensors))),
        down(register_module("down",
                             nn::Linear(torch, nn::LinearOptions(4, 2).bias(false), tensors))),
        steps(register_buffer("steps", torch.zeros({1}, tensors))) {}
  Tensor forward(const Tensor& x) const { return down(relu(norm(up(x)))); }

  nn::Linear up;
  nn::LayerNorm norm;
  nn::Linear down;
  Tensor steps;
};
KERNBENCH_MODULE(Net);

TEST_CASE("a module names its parameters and buffers as torch does", "[nn]") {
  OperatorsUnderTest dut;
  const Net net(dut.torch);
  CHECK(net->named_parameters().keys() == std::vector<std::string>{"up.weight", "up.bias",
                                                                   "norm.weight", "norm.bias",
                                                                   "down.weight"});
  CHECK(net->named_buffers().keys() == std::vector<std::string>{"steps"});
  CHECK(net->state_dict().keys() == std::vector<std::string>{"steps", "up.weight", "up.bias",
                                                             "norm.weight", "norm.bias",
                                                             "down.weight"});
  CHECK(net->named_parameters()["up.weight"].shape() == Shape{4, 3});
  std::int64_t elements = 0;
  for (const auto& [name, parameter] : net->named_parameters()) elements += parameter.numel();
  CHECK(elements == 4 * 3 + 4 + 4 + 4 + 2 * 4);
  CHECK(net->parameters(false).empty());
  CHECK(net->children().size() == 3);
  for (const Tensor& parameter : net->parameters()) CHECK(parameter.requires_grad());
  CHECK(!net->steps.requires_grad());
}

TEST_CASE("a module computes, and its parameters get gradients", "[nn]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const Net net(dut.torch, {.dtype = dtype, .dp = on_pes(kR)});
  const Tensor x = dut.tensor({2, 3}, {1, 2, 3, 4, 5, 6}, on_pes(kR), dtype);
  const Tensor y = net(x);
  CHECK(y.shape() == Shape{2, 2});
  CHECK(y.dtype() == dtype);
  y.sum().backward();
  for (const Tensor& parameter : net->parameters()) CHECK(parameter.grad().defined());
  net->zero_grad(false);
  CHECK(net->up->bias.grad().to_vector() == Floats(4, 0));
  net->zero_grad();
  CHECK(!net->up->bias.grad().defined());
}

TEST_CASE("linear layers begin within 1 / sqrt(in), as torch's", "[nn]") {
  OperatorsUnderTest dut;
  const nn::Linear linear(dut.torch, 64, 100);
  float most = 0;
  for (const float element : linear->weight.to_vector()) most = std::max(most, std::abs(element));
  CHECK(most <= 0.125F);
  CHECK(most > 0.12F);  // the largest of 6,400 uniform numbers
  CHECK(nn::LayerNorm(dut.torch, 3)->weight.to_vector() == Floats(3, 1));
}

TEST_CASE("a state_dict loads into another module, and what does not fit is told", "[nn]") {
  OperatorsUnderTest dut;
  const Net from(dut.torch);
  const Net to(dut.torch, {.dp = on_pes(kR)});
  to->load_state_dict(from->state_dict());
  CHECK(to->up->weight.to_vector() == from->up->weight.to_vector());
  nn::StateDict state;
  state.insert("up.weight", RuntimeContext::tensor(Floats(2), {2}));
  state.insert("extra", RuntimeContext::tensor(Floats(2), {2}));
  const std::string text = refusal([&] { to->load_state_dict(state); });
  CHECK_THAT(text, Says("KB-A011", "Missing key(s) in state_dict", "up.bias", "down.weight",
                        "Unexpected key(s) in state_dict", "extra", "size mismatch for up.weight"));
  nn::StateDict part;
  part.insert("norm.bias", RuntimeContext::tensor({1, 2, 3, 4}));
  part.insert("extra", RuntimeContext::tensor(Floats(2), {2}));
  const nn::IncompatibleKeys keys = to->load_state_dict(part, {.strict = false});
  CHECK(keys.missing_keys ==
        std::vector<std::string>{"steps", "up.weight", "up.bias", "norm.weight", "down.weight"});
  CHECK(keys.unexpected_keys == std::vector<std::string>{"extra"});
  CHECK(to->norm->bias.to_vector() == Floats{1, 2, 3, 4});
}

TEST_CASE("names that modules cannot have are refused in torch's words", "[nn]") {
  OperatorsUnderTest dut;
  nn::Linear linear(dut.torch, 2, 2);
  const Tensor x = dut.torch.zeros({1});
  CHECK_THAT(refusal([&] { linear->register_parameter("", x); }),
             Says("KB-A010", "name must not be empty"));
  CHECK_THAT(refusal([&] { linear->register_buffer("a.b", x); }),
             Says("KB-A010", "must not contain a dot (got 'a.b')"));
  CHECK_THAT(refusal([&] { linear->register_buffer("weight", x); }),
             Says("KB-A010", "'weight' already defined"));
  CHECK_THAT(refusal([&] { linear->named_parameters()["none"]; }),
             Says("KB-A010", "Key 'none' is not defined"));
}

TEST_CASE("modules in a row, in a list, and shared", "[nn]") {
  OperatorsUnderTest dut;
  const nn::Linear shared(dut.torch, 3, 3);
  nn::Sequential model(shared, nn::ReLU(), nn::Dropout(0.5), shared);
  CHECK(model->named_parameters().keys() == std::vector<std::string>{"0.weight", "0.bias"});
  CHECK(model->size() == 4);
  model->eval();
  const Tensor x = dut.tensor({1, 3}, {1, 2, 3}, {});
  CHECK(model(x).to_vector() == shared(relu(shared(x))).to_vector());
  nn::ModuleList<nn::Linear> list;
  list->push_back(nn::Linear(dut.torch, 3, 2));
  list->push_back(nn::Linear(dut.torch, 2, 1));
  CHECK(list->parameters().size() == 4);
  CHECK((*list)[1](list.ptr()->operator[](0)(x)).shape() == Shape{1, 1});
  int count = 0;
  model->apply([&](nn::Module&) { ++count; });
  CHECK(count == 5);
  CHECK(list[0]->weight.shape() == (*list)[0]->weight.shape());
}

TEST_CASE("dropout drops in training alone, the same with every placement", "[nn]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::f32);
  const auto dropped = [&](const DPPolicy& dp) {
    dut.torch.manual_seed(7);
    const Tensor x = dut.tensor({40, 50}, Floats(2000, 3), dp, dtype).requires_grad_();
    const Tensor y = nn::functional::dropout(x, 0.25);
    y.sum().backward();
    const Floats is = y.to_vector();
    const Floats dx = x.grad().to_vector();
    for (std::size_t i = 0; i < is.size(); ++i) CHECK((is[i] == 0 ? dx[i] == 0 : dx[i] > 1.3F));
    return is;
  };
  const Floats y = dropped(on_pes(kR));
  CHECK(dropped(on_pes(kRow)) == y);
  CHECK(dropped(on_all(kRow, kColumn)) == y);
  double kept = 0;
  for (const float element : y) {
    CHECK((element == 0 || element == 4));
    kept += element == 4 ? 1 : 0;
  }
  CHECK(std::abs(kept - 1500) <= 5 * std::sqrt(2000 * 0.25 * 0.75));
  const Tensor x = dut.leaf({3}, 1);
  CHECK(nn::functional::dropout(x, 0.5, false).storage() == x.storage());
  CHECK(nn::functional::dropout(x, 1).to_vector() == Floats(3, 0));
  CHECK_THAT(error([&] { nn::functional::dropout(x, 1.5); }),
             Says("KB-F001", "dropout probability has to be between 0 and 1, but got 1.5"));
}

TEST_CASE("losses are torch's", "[nn]") {
  OperatorsUnderTest dut;
  namespace F = nn::functional;
  const Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4}, on_pes(kR)).requires_grad_();
  const Tensor y = dut.tensor({2, 2}, {0, 4, 3, 2}, on_pes(kR));
  CHECK(F::mse_loss(x, y).item() == 2.25F);
  CHECK(F::mse_loss(x, y, F::Reduction::sum).item() == 9);
  CHECK(F::l1_loss(x, y, F::Reduction::none).to_vector() == Floats{1, 2, 0, 2});
  F::mse_loss(x, y).backward();
  CHECK(x.grad().to_vector() == Floats{0.5F, -1, 0, 1});
  const Tensor logits = dut.tensor({3, 2}, {1, 2, 3, 4, 5, 6}, on_pes(kR));
  const Tensor classes = dut.tensor({3}, {1, -100, 0}, on_pes(kR));
  CHECK(F::nll_loss(logits, classes).item() == -3.5F);
  CHECK(F::nll_loss(logits, classes, F::Reduction::none).to_vector() == Floats{-2, 0, -5});
  const float by_parts = F::nll_loss(F::log_softmax(logits, 1), classes).item();
  CHECK(std::abs(by_parts - F::cross_entropy(logits, classes).item()) <= 4 * 0x1p-24F);
}

TEST_CASE("initial values have their bounds and spreads", "[nn]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.torch.empty({30, 60}).requires_grad_();
  const auto largest = [&] {
    float most = 0;
    for (const float element : w.to_vector()) most = std::max(most, std::abs(element));
    return most;
  };
  nn::init::xavier_uniform_(w);
  CHECK(largest() <= std::sqrt(6.0F / 90));
  CHECK(largest() > 0.99F * std::sqrt(6.0F / 90));
  nn::init::kaiming_uniform_(w, std::sqrt(5.0));
  CHECK(largest() <= 1 / std::sqrt(60.0F));
  nn::init::kaiming_uniform_(w, std::sqrt(5.0), nn::init::FanMode::fan_out);
  CHECK(largest() <= 1 / std::sqrt(30.0F));
  CHECK(largest() > 0.99F / std::sqrt(30.0F));
  nn::init::trunc_normal_(w, 0, 0.5, -1, 0.75);
  CHECK(largest() <= 1);
  const Floats truncated = w.to_vector();
  CHECK(*std::ranges::max_element(truncated) <= 0.75F);
  nn::init::constant_(w, 3);
  CHECK(w.to_vector() == Floats(1800, 3));
  const Tensor square = dut.torch.empty({2, 3});
  CHECK(nn::init::eye_(square).to_vector() == Floats{1, 0, 0, 0, 1, 0});
  CHECK_THAT(error([&] { nn::init::trunc_normal_(w, 0, 1, 5, 6); }),
             Says("KB-F001", "between a and b"));
  CHECK_THAT(error([&] { nn::init::xavier_normal_(dut.torch.zeros({3})); }),
             Says("KB-F001", "fewer than 2 dimensions"));
}

}  // namespace
}  // namespace kernbench::test::module_test
