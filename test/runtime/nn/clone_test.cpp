// Tests copies of modules: equal values in the same places, and nothing in common.

#include "runtime/nn/containers.h"
#include "runtime/nn/convolution.h"
#include "runtime/nn/layers.h"
#include "runtime/optim/optimizer.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::clone_test {
namespace {

// The parameters and buffers of two modules are equal, and no two lie in the same memory.
void check_is_copy(const nn::Module& copy, const nn::Module& of) {
  const nn::StateDict own = of.state_dict();
  const nn::StateDict its = copy.state_dict();
  REQUIRE(its.keys() == own.keys());
  for (const auto& [name, tensor] : own) {
    INFO(name);
    const Tensor& other = its[name];
    CHECK(other.to_vector() == tensor.to_vector());
    CHECK(other.dtype() == tensor.dtype());
    CHECK(other.dp() == tensor.dp());
    CHECK(other.device() == tensor.device());
    CHECK(other.requires_grad() == tensor.requires_grad());
    CHECK(other.is_leaf());
    CHECK(other.name() == tensor.name());
    const auto address = [](const Tensor& x) { return x.shards().front().address; };
    CHECK(address(other) != address(tensor));
  }
}

TEST_CASE("a layer's copy computes the same, and changes alone", "[nn][clone]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = GENERATE(on_pes(kR), on_pes(kRow));
  const nn::Linear linear(dut.torch, 4, 6, {.dtype = DType::bf16, .dp = dp, .name = "fc"});
  linear->bias.requires_grad_(false);
  linear->eval();
  int calls = 0;
  linear->register_forward_pre_hook([&](nn::Module&, const Tensor&) {
    ++calls;
    return Tensor();
  });
  const nn::Linear copy = linear.clone();
  check_is_copy(*copy, *linear);
  CHECK(!copy->is_training());
  const Tensor x = dut.tensor({2, 4}, small_integers(8, 1), on_pes(kR), DType::bf16);
  const Floats y = copy(x).to_vector();
  CHECK(calls == 0);  // hooks are not copied
  CHECK(linear(x).to_vector() == y);
  nn::init::zeros_(linear->weight);
  nn::init::zeros_(linear->bias);
  CHECK(copy(x).to_vector() == y);
  copy(x).sum().backward();
  CHECK(copy->weight.grad().defined());
  CHECK(!linear->weight.grad().defined());
}

TEST_CASE("all layers are copied", "[nn][clone]") {
  OperatorsUnderTest dut;
  const RuntimeContext& torch = dut.torch;
  nn::Sequential net(
      nn::Linear(torch, 3, 3), nn::Embedding(torch, 4, 3), nn::LayerNorm(torch, 3),
      nn::RMSNorm(torch, 3), nn::Dropout(0.25), nn::GELU(), nn::Softmax(1), nn::LogSoftmax(1),
      nn::Flatten(), nn::Conv1d(torch, 2, 2, 1), nn::Conv2d(torch, 2, 2, 1),
      nn::BatchNorm1d(torch, 3), nn::BatchNorm2d(torch, 3), nn::GroupNorm(torch, 1, 3),
      nn::MaxPool2d(2), nn::AvgPool2d(2), nn::AdaptiveAvgPool2d(1),
      nn::MultiheadAttention(torch, 4, 2), nn::RotaryEmbedding(torch, 4, 3), nn::MSELoss(),
      nn::CrossEntropyLoss(), nn::NLLLoss(), nn::Functional(kernbench::relu),
      nn::ModuleList(nn::ReLU(), nn::SiLU()), nn::ModuleDict({{"a", nn::Linear(torch, 1, 2)}}));
  const nn::Sequential copy = net.clone();
  check_is_copy(*copy, *net);
  CHECK(to_string(*copy) == to_string(*net));
  for (std::size_t i = 0; i < net->size(); ++i) {
    INFO(net[i]->name());
    const nn::Module& copied = *copy[i];
    const nn::Module& original = *net[i];
    CHECK(typeid(copied) == typeid(original));
    CHECK(copy[i].ptr() != net[i].ptr());
    CHECK(copy[i].ptr() == copy->children()[i]);
  }
  const auto* const attention = copy[17]->as<nn::MultiheadAttention>();
  CHECK(attention->out_proj->weight.storage() ==
        attention->named_parameters()["out_proj.weight"].storage());
  const Tensor x = dut.tensor({3, 4}, small_integers(12, 2), on_all(kR, kR));
  CHECK(copy[18](x).to_vector() == net[18](x).to_vector());
}

TEST_CASE("what a module shares its copy shares", "[nn][clone]") {
  OperatorsUnderTest dut;
  const nn::Linear shared(dut.torch, 2, 2);
  const nn::Sequential net(shared, nn::ReLU(), shared);
  const nn::Sequential copy = net.clone();
  CHECK(copy[0].ptr() == copy[2].ptr());
  CHECK(copy->parameters().size() == 2);
  const nn::Linear tied(dut.torch, 2, 2);
  tied->replace_parameter(tied->weight, shared->weight);
  tied->weight = shared->weight;
  const nn::ModuleList other(shared, tied);
  const nn::ModuleList<> of_other = other.clone();
  CHECK(of_other->parameters().size() == 3);
  CHECK(of_other[0]->as<nn::Linear>()->weight.storage() ==
        of_other[1]->as<nn::Linear>()->weight.storage());
}

TEST_CASE("a copy draws no numbers and costs a kernel for each tensor", "[nn][clone]") {
  OperatorsUnderTest dut;
  OperatorsUnderTest other;
  const nn::Linear linear(dut.torch, 64, 64, {.dp = on_pes(kR)});
  const nn::Linear same(other.torch, 64, 64, {.dp = on_pes(kR)});
  const auto before = dut.torch.engine().now_ns();
  const auto kernels = dut.torch.engine().results().size();
  linear.clone();
  dut.torch.ahbm.synchronize();
  CHECK(dut.torch.engine().results().size() == kernels + 4);  // 2 tensors on 2 PEs
  CHECK(dut.torch.engine().now_ns() > before);
  CHECK(dut.torch.rand({3}).to_vector() == other.torch.rand({3}).to_vector());
}

// A module of the user's, as libtorch's documentation has them.
struct NetImpl : nn::Cloneable<NetImpl> {
  NetImpl(const RuntimeContext& of, std::int64_t hidden, bool ties = false)
      : torch(of), size(hidden), is_tied(ties) {
    reset();
  }
  void reset() override {
    up = register_module("up", nn::Linear(torch, 2, size));
    blocks = register_module("blocks", nn::ModuleList<>(nn::Linear(torch, size, size), nn::Tanh()));
    scale = register_parameter("scale", is_tied ? up->bias : torch.ones({size}));
    count = register_buffer("count", torch.zeros({}, {.dtype = DType::i64}));
  }
  Tensor forward(const Tensor& x) const {
    Tensor y = up(x);
    for (const nn::AnyModule& block : *blocks) y = block(y);
    return y * scale;
  }
  const RuntimeContext& torch;
  std::int64_t size;
  bool is_tied;
  nn::Linear up = nullptr;
  nn::ModuleList<> blocks = nullptr;
  Tensor scale;
  Tensor count;
};
KERNBENCH_MODULE(Net);

struct OuterImpl : nn::Cloneable<OuterImpl> {
  explicit OuterImpl(const RuntimeContext& of) : torch(of) { reset(); }
  void reset() override { inner = register_module("inner", Net(torch, 3)); }
  Tensor forward(const Tensor& x) const { return inner(x); }
  const RuntimeContext& torch;
  Net inner = nullptr;
};
KERNBENCH_MODULE(Outer);

TEST_CASE("a user's Cloneable is copied with what reset() registers", "[nn][clone]") {
  OperatorsUnderTest dut;
  const Net net(dut.torch, 3);
  net->count += 5;
  nn::init::constant_(net->scale, 2);
  net->up->eval();
  const Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4}, on_all(kR, kR));
  net(x).sum().backward();
  const Net copy = net.clone();
  check_is_copy(*copy, *net);
  CHECK(copy->size == 3);
  CHECK(!copy->up->is_training());
  CHECK(copy->is_training());
  CHECK(copy(x).to_vector() == net(x).to_vector());
  CHECK(!copy->scale.grad().defined());
  optim::SGD sgd(copy->parameters(), 0.5);
  const Floats y = net(x).to_vector();
  copy(x).sum().backward();
  sgd.step();
  CHECK(copy(x).to_vector() != y);
  CHECK(net(x).to_vector() == y);
  CHECK(copy->count.item<std::int64_t>() == 5);

  const Outer outer(dut.torch);
  const Outer of_outer = outer.clone();
  check_is_copy(*of_outer, *outer);
  CHECK(of_outer(x).to_vector() == outer(x).to_vector());
  CHECK(of_outer->children()[0] == of_outer->inner.ptr());
  // What is shared later is shared in the copy, and what is shared no longer is not.
  const Net untied(dut.torch, 3);
  untied->is_tied = true;
  check_is_copy(*untied.clone(), *untied);
  CHECK(untied.clone()->parameters().size() == untied->parameters().size());
  const Net tied(dut.torch, 3, true);
  const Net of_tied = tied.clone();
  CHECK(of_tied->parameters().size() == tied->parameters().size());
  CHECK(of_tied->scale.storage() == of_tied->up->bias.storage());
}

struct WeightImpl : nn::Cloneable<WeightImpl> {
  explicit WeightImpl(const RuntimeContext& of) : torch(of) { reset(); }
  void reset() override { w = register_parameter("w", torch.ones({2})); }
  const RuntimeContext& torch;
  Tensor w;
};
KERNBENCH_MODULE(Weight);
struct PairImpl : nn::Cloneable<PairImpl> {
  explicit PairImpl(const RuntimeContext& of) : torch(of) { reset(); }
  void reset() override {
    a = register_module("a", Weight(torch));
    b = register_module("b", Weight(torch));
  }
  const RuntimeContext& torch;
  Weight a = nullptr;
  Weight b = nullptr;
};
KERNBENCH_MODULE(Pair);
struct PlainImpl : nn::Module {};
struct NoResetImpl : nn::Cloneable<NoResetImpl> {
  explicit NoResetImpl(const RuntimeContext& torch) { register_parameter("w", torch.ones({2})); }
  void reset() override {}
};
struct LargerLinearImpl : nn::LinearImpl {
  using LinearImpl::LinearImpl;
  int more = 3;
};

TEST_CASE("what cannot be copied is refused in libtorch's words", "[nn][clone][errors]") {
  OperatorsUnderTest dut;
  CHECK_THAT(refusal([&] { PlainImpl().clone(); }),
             Says("KB-A010", "clone() has not been implemented for Plain.",
                  "kb::nn::Cloneable<PlainImpl>"));
  CHECK_THAT(refusal([&] { NoResetImpl(dut.torch).clone(); }),
             Says("KB-A010", "The cloned module does not have the same number of parameters",
                  "register_parameter() inside reset()"));
  // A copy of the LinearImpl in it would lack what it adds.
  CHECK_THAT(refusal([&] { LargerLinearImpl(dut.torch, 2, 2).clone(); }),
             Says("KB-A010", "has not been implemented for LargerLinear"));
  const Net net(dut.torch, 3);
  net->size = 4;
  CHECK_THAT(refusal([&] { net.clone(); }),
             Says("KB-A010", "'scale'", "shape [4]", "the module has [3]"));
  const Pair pair(dut.torch);
  pair->b->replace_parameter(pair->b->w, pair->a->w);
  pair->b->w = pair->a->w;
  CHECK_THAT(refusal([&] { pair.clone(); }),
             Says("KB-A010", "share 'w'", "register what is shared in reset()"));
  CHECK_THAT(refusal([&] { nn::Linear(nullptr).clone(); }), Says("KB-A010", "empty ModuleHolder"));
}

}  // namespace
}  // namespace kernbench::test::clone_test
