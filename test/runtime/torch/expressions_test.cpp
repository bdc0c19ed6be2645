// Compiles and runs the expressions that a user of PyTorch types, line by line.  Other tests check
// what the operators compute.

#include <sstream>

#include "runtime/autograd/autograd.h"
#include "runtime/nn/layers.h"
#include "runtime/optim/optimizer.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::expressions_test {
namespace {

namespace kb = kernbench;
namespace F = kb::nn::functional;

// Runs an expression and waits for it, so that what its kernels throw is thrown here.
#define RUNS(...)               \
  {                             \
    INFO(#__VA_ARGS__);         \
    CHECK_NOTHROW(__VA_ARGS__); \
    torch.ahbm.synchronize();   \
  }

struct Expressions : OperatorsUnderTest {
  Expressions() : torch(OperatorsUnderTest::torch) {}

  kb::RuntimeContext& torch;
  const kb::TensorOptions on_one{.dp = kb::DPPolicy::on_one_pe()};
  kb::Tensor x = torch.rand({4, 6}, on_one) + 0.5;
  kb::Tensor y = torch.rand({4, 6}, on_one) + 0.5;
  kb::Tensor v = torch.arange(6.0, on_one);
  kb::Tensor n = torch.arange(24, on_one).view({4, 6});
  kb::Tensor ids = torch.tensor({3, 0, 1}, {3}, {.dtype = kb::DType::i64, .dp = on_one.dp});
  kb::Tensor mask = x > 1;
};

TEST_CASE_METHOD(Expressions, "arithmetic as in PyTorch compiles and runs", "[expressions]") {
  RUNS(x + y);
  RUNS(x - y);
  RUNS(x * y);
  RUNS(x / y);
  RUNS(-x);
  RUNS(x + 1);
  RUNS(x + 1.0);
  RUNS(1 + x);
  RUNS(1 - x);
  RUNS(x / 2);
  RUNS(2 / x);
  RUNS(x * 0.5F);
  RUNS(x + v);
  RUNS(x * v.unsqueeze(0));
  RUNS(x.add(y));
  RUNS(x.add(y, 2));
  RUNS(x.add(1));
  RUNS(x.sub(y, 0.5));
  RUNS(x.mul(2));
  RUNS(x.div(y));
  RUNS(x.neg());
  RUNS(add(x, y));
  RUNS(sub(x, 1.5));
  RUNS(mul(x, y));
  RUNS(div(x, 3));
  RUNS(x.add_(y));
  RUNS(x.mul_(0.5));
  RUNS(x.sub_(1));
  RUNS(x.div_(2));
  RUNS(x += y);
  RUNS(x -= 1);
  RUNS(x *= 2);
  RUNS(x /= y);
  RUNS(x.fill_(3));
  RUNS(y.clone().zero_());
  RUNS(x.neg_());
  RUNS(n + 1);
  RUNS(n * n);
  RUNS(n / 2);
  RUNS(n + x);
  RUNS(n.pow(2));
  RUNS(n += 1);
}

TEST_CASE_METHOD(Expressions, "functions as in PyTorch compile and run", "[expressions]") {
  RUNS(exp(x));
  RUNS(x.exp());
  RUNS(log(x));
  RUNS(x.log());
  RUNS(sqrt(x));
  RUNS(x.sqrt());
  RUNS(rsqrt(x));
  RUNS(x.rsqrt());
  RUNS(abs(x));
  RUNS(x.abs());
  RUNS(tanh(x));
  RUNS(x.tanh());
  RUNS(sigmoid(x));
  RUNS(x.sigmoid());
  RUNS(relu(x));
  RUNS(x.relu());
  RUNS(F::relu(x));
  RUNS(F::silu(x));
  RUNS(F::gelu(x));
  RUNS(F::gelu(x, F::Approximate::tanh));
  RUNS(pow(x, 2));
  RUNS(x.pow(0.5));
  RUNS(x.square());
  RUNS(reciprocal(x));
  RUNS(x.reciprocal());
  RUNS(clamp(x, 0.5, 1));
  RUNS(x.clamp(0.6));
  RUNS(maximum(x, y));
  RUNS(minimum(x, y));
  RUNS(where(x > y, x, y));
  RUNS(where(mask, x, 0.0));
  RUNS(where(mask, 1, x));
  RUNS(x.masked_fill(mask, -1e9));
  RUNS(masked_fill(x, ~mask, 0));
  RUNS(x == y);
  RUNS(x != 0);
  RUNS(x < y);
  RUNS(x <= 1);
  RUNS(x > 0.5);
  RUNS(x >= y);
  RUNS(x.eq(y));
  RUNS(x.ne(1));
  RUNS(mask & (y > 1));
  RUNS(mask | ~mask);
  RUNS(mask ^ mask);
  RUNS(mask.logical_not());
  RUNS(logical_and(x, mask));
  RUNS(x.sin() + x.cos() + x.tan());
  RUNS(sin(x));
  RUNS(erf(x) + x.log1p() + expm1(x) + x.exp2() + log2(x));
  RUNS(x.floor() + ceil(x) + x.round() + trunc(x) + x.sign());
  RUNS(x.isnan() | isinf(x) | x.isfinite());
  RUNS(x % y);
  RUNS(x % 2);
  RUNS(n % 2);
  RUNS(remainder(x, 2));
  RUNS(x.fmod(0.5));
  RUNS(floor_divide(n, 2));
  RUNS(hypot(x, y));
  RUNS(x.lerp(y, 0.5));
  RUNS(addcmul(x, x, y, 0.5));
  RUNS(x.addcdiv(x, y));
  RUNS(x.clone().lerp_(y, 0.1).addcmul_(x, x, 0.5).addcdiv_(x, y, -1));
  RUNS(mask.logical_xor(mask));
  RUNS(F::softplus(x));
  RUNS(F::leaky_relu(x, 0.2));
  RUNS(x.softmax(-1));
  RUNS(x.log_softmax(1));
  RUNS(F::softmax(x, 0));
  RUNS(F::dropout(x, 0.5));
}

TEST_CASE_METHOD(Expressions, "functions of torch are members of the context", "[expressions]") {
  RUNS(torch.exp(x) + torch.sin(x) * torch.pow(x, 2) + torch.pow(2.0, x));
  RUNS(torch.cat({x, y}, 1));
  RUNS(torch.stack({x, y}));
  RUNS(torch.cat(x.chunk(2, 1)));
  RUNS(torch.einsum("ij,kj->ik", {x, y}));
  RUNS(torch.where(mask, x, 0.0));
  RUNS(torch.clamp(x, 0.5, 1));
  RUNS(torch.sum(x));
  RUNS(torch.sum(x, 1, true));
  RUNS(torch.mean(x, {0, 1}));
  RUNS(torch.std(x, {-1}, false));
  RUNS(torch.permute(x, {1, 0}));
  RUNS(torch.reshape(x, {3, 8}));
  RUNS(torch.split(x, {1, 3}));
  RUNS(torch.max(x, 1));
  RUNS(torch.min(x, y));
  RUNS(torch.topk(x, 2));
  RUNS(torch.softmax(x, -1));
  RUNS(torch.matmul(x, y.t()));
  RUNS(torch.triu(torch.full({3, 3}, -HUGE_VAL, on_one), 1));
  RUNS(torch.multinomial(torch.softmax(x, -1), 1));
  RUNS(torch.allclose(x, x));
  CHECK(torch.equal(torch.outer(v, v), outer(v, v)));
}

TEST_CASE_METHOD(Expressions, "reductions as in PyTorch compile and run", "[expressions]") {
  RUNS(sum(x));
  RUNS(x.sum());
  RUNS(x.sum(0));
  RUNS(x.sum(-1, true));
  RUNS(x.sum({0, 1}));
  RUNS(mean(x));
  RUNS(x.mean(1));
  RUNS(x.mean({0, 1}, true));
  RUNS(x.max());
  RUNS(x.min());
  RUNS(x.amax(1));
  RUNS(x.amin({0, 1}));
  RUNS(x.argmax());
  RUNS(x.argmax(1));
  RUNS(x.argmax(-1, true));
  RUNS(x.norm());
  RUNS(x.norm(1, 0));
  RUNS(x.cumsum(0));
  RUNS(n.cumsum(1));
  RUNS(mask.any());
  RUNS(mask.all(1));
  RUNS(mask.sum().item<int>());
  RUNS(x.var());
  RUNS(x.var(1, false));
  RUNS(x.std(-1, true, true));
  RUNS(x.prod());
  RUNS(n.prod(1));
  RUNS(x.logsumexp(-1));
  RUNS(x.sort());
  RUNS(x.argsort(0, true));
  RUNS(x.topk(2));
  RUNS(x.mean().item());
  RUNS(nonzero(mask));
}

TEST_CASE_METHOD(Expressions, "shapes and indices as in PyTorch compile and run", "[expressions]") {
  RUNS(x.view({2, 12}));
  RUNS(x.view({-1}));
  RUNS(x.reshape({3, 8}));
  RUNS(x.flatten());
  RUNS(x.t());
  RUNS(x.transpose(0, 1));
  RUNS(x.permute({1, 0}));
  RUNS(x.unsqueeze(-1));
  RUNS(x.unsqueeze(0).squeeze(0));
  RUNS(v.expand({4, -1}));
  RUNS(v.expand_as(x));
  RUNS(x.contiguous());
  RUNS(x.t().is_contiguous());
  RUNS(x[0]);
  RUNS(x[-1][2]);
  RUNS(x.narrow(1, 2, 3));
  RUNS(x.slice(0, 1));
  RUNS(x.slice(1, 0, 6, 2));
  RUNS(x.select(1, -1));
  RUNS(x.split(2));
  RUNS(x.split({1, 3}));
  RUNS(split(x, 4, 1));
  RUNS(x.chunk(3, 1));
  RUNS(x.unbind());
  RUNS(cat({x, y}));
  RUNS(cat({x, y}, 1));
  RUNS(stack({x, y}, -1));
  RUNS(tril(x));
  RUNS(triu(x, 1));
  RUNS(x.index_select(0, ids));
  RUNS(x.gather(0, ids.view({1, 3}).expand({1, 3}).sum() * 0 + torch.zeros({1, 6}, on_one)));
  RUNS(v.scatter(0, ids, v.narrow(0, 0, 3)));
  RUNS(v.scatter(0, ids, 1.5));
  RUNS(v.scatter_add(0, ids, v.narrow(0, 0, 3)));
  RUNS(one_hot(ids));
  RUNS(one_hot(ids, 5));
  RUNS(x.size(0));
  RUNS(x.sizes());
  RUNS(x.dim());
  RUNS(x.numel());
  RUNS(x.dtype());
  RUNS(x.to(kb::DType::f16));
  RUNS(x.to(kb::DType::i64));
  RUNS(x.to(kb::DType::f8e5m2).to(kb::DType::f32));
  RUNS(x.clone());
  RUNS(x.detach());
  RUNS(x.is_alias_of(y));
  RUNS(x.redistribute(kb::DPPolicy{}));
  RUNS(x.to_vector());
  RUNS(n.to_vector<std::int64_t>());
  RUNS(x.at({1, 2}));
  RUNS(n.at<std::int64_t>({1, 2}));
  RUNS(x.flip({0, 1}));
  RUNS(x.roll(2, 1));
  RUNS(x.repeat_interleave(2, 0));
  RUNS(masked_select(x, mask));
  std::ostringstream out;
  RUNS(out << x << n << mask);
}

TEST_CASE_METHOD(Expressions, "what makes tensors as in PyTorch compiles and runs",
                 "[expressions]") {
  RUNS(torch.zeros({2, 3}));
  RUNS(torch.ones({2}, {.dtype = kb::DType::i32}));
  RUNS(torch.full({2}, 7));
  RUNS(torch.full({2}, true, {.dtype = kb::DType::boolean}));
  RUNS(torch.empty({2}));
  RUNS(torch.zeros_like(x));
  RUNS(torch.ones_like(n));
  RUNS(torch.full_like(x, 0.5));
  RUNS(torch.rand_like(x));
  RUNS(torch.randn_like(x));
  RUNS(torch.rand({2, 2}));
  RUNS(torch.randn({2, 2}));
  RUNS(torch.randint(0, 10, {4}));
  RUNS(torch.arange(5));
  RUNS(torch.arange(1, 5));
  RUNS(torch.arange(0, 1, 0.25));
  RUNS(torch.linspace(0, 1, 3));
  RUNS(torch.eye(3));
  RUNS(torch.tensor({1, 2}));
  RUNS(torch.tensor({1.5, 2.5}, {2}, on_one));
  RUNS(torch.tensor({true, false}, {2}, {.dtype = kb::DType::boolean}));
  RUNS(torch.manual_seed(1));
  RUNS(x.uniform_());
  RUNS(x.normal_(0, 0.02));
  RUNS(x.copy_(y));
}

TEST_CASE_METHOD(Expressions, "products, losses and gradients as in PyTorch compile and run",
                 "[expressions]") {
  const kb::Tensor w = torch.randn({3, 6}, on_one).requires_grad_();
  const kb::Tensor target =
      torch.tensor({0, 2, 1, 0}, {4}, {.dtype = kb::DType::i64, .dp = on_one.dp});
  RUNS(matmul(x, y.t()));
  RUNS(x.matmul(w.t()));
  RUNS(F::linear(x, w));
  RUNS(x.mv(v));
  RUNS(matmul(x, v));
  RUNS(v.dot(v));
  RUNS(outer(v, v));
  RUNS(F::binary_cross_entropy_with_logits(x, y));
  RUNS(F::smooth_l1_loss(x, y));
  RUNS(kb::nn::MSELoss()(x, y));
  RUNS(kb::nn::CrossEntropyLoss({.label_smoothing = 0.1})(F::linear(x, w), target));
  RUNS(addmm(v, x, torch.rand({6, 6}, on_one)));
  RUNS(F::embedding(ids, y));
  RUNS(F::layer_norm(x, {6}));
  RUNS(F::cross_entropy(F::linear(x, w), target));
  RUNS(F::nll_loss(F::linear(x, w).log_softmax(1), target));
  RUNS(F::mse_loss(x, y));
  RUNS(F::l1_loss(x, y));
  RUNS(F::linear(x, w).sum().backward());
  RUNS(w.grad().norm());
  RUNS(w.requires_grad());
  RUNS(w.is_leaf());
  RUNS(w.register_hook([](const kb::Tensor& g) { return g * 2; }));
  RUNS(kb::autograd::grad({(w * w).sum()}, {w}));
  RUNS(kb::Tensor(w).mutable_grad() = torch.zeros_like(w));
  RUNS(kb::NoGradGuard(torch));
  RUNS(kb::InferenceMode(torch));
  kb::optim::SGD optimizer({w}, 0.1);
  RUNS(optimizer.step());
  RUNS(optimizer.zero_grad());
}

}  // namespace
}  // namespace kernbench::test::expressions_test
