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
