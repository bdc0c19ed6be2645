// Tests what a module calls around forward(), its type, and modules by name.

#include "runtime/nn/layers.h"
#include "runtime/optim/optimizer.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::module_hooks_test {
namespace {

TEST_CASE("hooks are called around forward, and may change what goes in and out", "[nn]") {
  OperatorsUnderTest dut;
  const nn::ReLU relu;
  const Tensor x = dut.tensor({2}, {-1, 3});
  std::vector<std::string> calls;
  const unsigned first = relu->register_forward_pre_hook([&](nn::Module& module, const Tensor& in) {
    calls.push_back("before");
    CHECK(&module == relu.ptr().get());
    return in * 2;
  });
  const unsigned second =
      relu->register_forward_hook([&](nn::Module&, const Tensor& in, const Tensor& out) {
        calls.push_back("after");
        CHECK(in.to_vector() == Floats{-2, 6});
        CHECK(out.to_vector() == Floats{0, 6});
        return out + 1.0;
      });
  relu->register_forward_hook([&](nn::Module&, const Tensor&, const Tensor& out) {
    CHECK(out.to_vector() == Floats{1, 7});
    return Tensor();  // keeps it
  });
  CHECK(relu(x).to_vector() == Floats{1, 7});
  CHECK(calls == std::vector<std::string>{"before", "after"});
  relu->remove_hook(second);
  relu->remove_hook(first);
  CHECK_THAT(error_of<CollectiveError>([&] { relu->remove_hook(first); }),
             Says("KB-A010", "no hook 1"));
}

TEST_CASE("modules within a Sequential have hooks too", "[nn]") {
  OperatorsUnderTest dut;
  const nn::ReLU relu;
  nn::Sequential model(nn::ReLU(), relu);
  int count = 0;
  relu->register_forward_pre_hook([&](nn::Module&, const Tensor&) {
    ++count;
    return Tensor();
  });
  model(dut.tensor({1}, {1}));
  CHECK(count == 1);
}

TEST_CASE("a module changes its type in place, and optimizers keep its parameters", "[nn]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = GENERATE(on_pes(kR), on_pes(kRow));
  const nn::Linear linear(dut.torch, 16, 32, {.dp = dp});
  const Tensor handle = linear->weight;
  optim::SGD sgd(linear->parameters(), 0.5);
  const Bytes before = dut.torch.ahbm.memory_allocated();
  const Floats expected = linear->weight.to(DType::bf16).to_vector();
  linear->to(DType::bf16);
  dut.torch.ahbm.synchronize();
  CHECK(dut.torch.ahbm.memory_allocated() < before);
  CHECK(handle.dtype() == DType::bf16);
  CHECK(handle.to_vector() == expected);
  const Tensor x = dut.tensor({2, 16}, Floats(32, 1), on_pes(kR), DType::bf16);
  const Tensor y = linear(x);
  CHECK(y.dtype() == DType::bf16);
  y.backward(dut.torch.ones_like(y));
  CHECK(handle.grad().dtype() == DType::bf16);
  linear->to(DType::f32);
  CHECK(handle.grad().dtype() == DType::f32);
  sgd.step();
  Floats stepped = expected;
  for (float& element : stepped) element -= 1;  // the gradient is 2
  CHECK(handle.to_vector() == stepped);
}

TEST_CASE("a module takes no type of integers, and keeps its weights", "[nn][errors]") {
  OperatorsUnderTest dut;
  const nn::Linear linear(dut.torch, 2, 2, {.dp = on_pes(kR)});
  const Floats expected = linear->weight.to_vector();
  for (const DType dtype : {DType::i32, DType::i64, DType::boolean}) {
    CHECK_THROWS_MATCHES(linear->to(dtype), DeviceError, Says("KB-F002", "floating"));
  }
  CHECK(linear->weight.to_vector() == expected);
}

TEST_CASE("a module moves to another device, and back", "[nn][device]") {
  OperatorsUnderTest dut;
  const nn::Sequential net(nn::Linear(dut.torch, 4, 3, {.dp = on_pes(kR)}),
                           nn::LayerNorm(dut.torch, 3, {.dp = on_pes(kR)}));
  const Tensor x = dut.tensor({2, 4}, small_integers(8, 1), on_pes(kR));
  const Floats y = net(x).to_vector();
  net(x).sum().backward();
  const Tensor handle = net->parameters().front();
  const Floats gradient = handle.grad().to_vector();
  const Bytes held = dut.torch.ahbm.memory_allocated(0);
  net->to("ahbm:1");
  for (const Tensor& parameter : net->parameters()) CHECK(parameter.device() == 1);
  CHECK(handle.device() == 1);
  CHECK(handle.grad().device() == 1);
  CHECK(handle.grad().to_vector() == gradient);
  CHECK(dut.torch.ahbm.memory_allocated(0) < held);
  CHECK(net(x.to("ahbm:1")).to_vector() == y);
  net->zero_grad();
  net(x.to("ahbm:1")).sum().backward();
  CHECK(handle.grad().to_vector() == gradient);
  CHECK_THAT(error([&] { net(x); }), Says("KB-F003"));
  optim::SGD sgd(net->parameters(), optim::SGDOptions(0.5).momentum(0.9));
  sgd.step();
  net->to("ahbm");  // the caller's device
  CHECK_THAT(error([&] { sgd.step(); }), Says("KB-F003", "before its optimizer is made"));
  CHECK(net(x).shape() == Shape{2, 3});
  CHECK_THAT(error([&] { net->to("cpu"); }), Says("KB-M024", "modules compute on ahbm devices"));
}

// y = 3 x, with torch's full backward hooks around it.
TEST_CASE("a backward hook sees the gradients of output and input, and may replace the latter",
          "[nn][hooks]") {
  OperatorsUnderTest dut;
  nn::Linear times(dut.torch, 1, 1, {.dp = DPPolicy::on_one_pe()});
  times->weight.detach().fill_(3);
  times->bias.detach().fill_(0);
  const Tensor x = dut.tensor({2, 1}, {1, 2}).requires_grad_();
  std::vector<Floats> seen;
  const unsigned number = times->register_full_backward_hook(
      [&](nn::Module&, const Tensor& grad_input, const Tensor& grad_output) {
        seen.push_back(grad_output.to_vector());
        seen.push_back(grad_input.to_vector());
        return grad_input * 10;
      });
  sum(times(x) * 5).backward();
  CHECK(seen == std::vector<Floats>{{5, 5}, {15, 15}});
  CHECK(x.grad().to_vector() == Floats{150, 150});
  CHECK(times->weight.grad().to_vector() == Floats{15});
  times->remove_hook(number);
  x.zero_grad();
  sum(times(x)).backward();
  CHECK(seen.size() == 2);
  CHECK(x.grad().to_vector() == Floats{3, 3});
}

TEST_CASE("an input that needs no gradient has none for a backward hook", "[nn][hooks]") {
  OperatorsUnderTest dut;
  nn::Linear layer(dut.torch, 1, 1, {.dp = DPPolicy::on_one_pe()});
  int calls = 0;
  layer->register_full_backward_hook(
      [&](nn::Module&, const Tensor& grad_input, const Tensor& grad_output) -> Tensor {
        ++calls;
        CHECK_FALSE(grad_input.defined());
        CHECK(grad_output.to_vector() == Floats{1, 1});
        return {};
      });
  const Tensor y = layer(dut.tensor({2, 1}, {1, 2}));
  sum(y).backward();
  CHECK(calls == 1);
  const Tensor other = sum(layer(dut.tensor({2, 1}, {1, 2})));
  layer = nullptr;  // graphs outlive modules, and hooks do not
  other.backward();
  CHECK(calls == 1);
}

TEST_CASE("modules by their names", "[nn]") {
  OperatorsUnderTest dut;
  CHECK_THAT(error_of<CollectiveError>([] { nn::Linear(nullptr)->weight.dim(); }),
             Says("KB-A010", "Accessing empty ModuleHolder"));
  nn::ModuleDict<nn::Linear> heads;
  heads->insert("small", nn::Linear(dut.torch, 3, 2));
  heads->insert("large", nn::Linear(dut.torch, 3, 4));
  CHECK(heads->keys() == std::vector<std::string>{"small", "large"});
  CHECK(heads->contains("large"));
  CHECK(heads->size() == 2);
  CHECK((*heads)["large"](dut.torch.zeros({1, 3})).shape() == Shape{1, 4});
  CHECK(heads->named_parameters().keys() ==
        std::vector<std::string>{"small.weight", "small.bias", "large.weight", "large.bias"});
  CHECK_THAT(error_of<CollectiveError>([&] { (*heads)["none"]; }),
             Says("KB-A010", "Key 'none' is not defined"));
  CHECK_THAT(error_of<CollectiveError>([&] { heads->insert("a.b", nn::Linear(dut.torch, 1, 1)); }),
             Says("KB-A010", "must not contain a dot"));
}

}  // namespace
}  // namespace kernbench::test::module_hooks_test
