#include "runtime/autograd/autograd.h"
#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::checkpoint_test {
namespace {

using nn::utils::checkpoint;
namespace F = nn::functional;

struct Outcome {
  Floats y, dx, dw;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

TEST_CASE("a checkpoint computes the same values and gradients, with the same dropout",
          "[nn][checkpoint]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = GENERATE(DPPolicy::on_one_pe(), on_pes(kR));
  const auto run = [&](bool recomputes) {
    dut.torch.manual_seed(3);
    const nn::Linear linear(dut.torch, 6, 6, {.dp = dp});
    const auto block = [&](const std::vector<Tensor>& in) {
      return F::dropout(F::gelu(linear(in[0])), 0.5);
    };
    const Tensor x = dut.tensor({4, 6}, sixteenths(24, 1), dp).requires_grad_();
    const Tensor h = x * 2;
    const Tensor first = recomputes ? checkpoint(block, {h}) : block({h});
    const Tensor y = F::dropout(first, 0.5);  // draws after the block, in both ways
    const Tensor more = dut.torch.rand({1});
    y.sum().backward();
    const Tensor later = dut.torch.rand({1});
    CHECK(later.item() != more.item());
    return Outcome{y.to_vector(), x.grad().to_vector(), linear->weight.grad().to_vector()};
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("a checkpoint keeps its inputs alone", "[nn][checkpoint]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = DPPolicy::on_one_pe();
  const Tensor x = dut.tensor({1024}, Floats(1024, 0.5F), dp).requires_grad_();
  const auto chain = [](const std::vector<Tensor>& in) { return exp(exp(exp(exp(in[0])))); };
  const auto held = [&, before = dut.torch.ahbm.memory_allocated()] {
    dut.torch.ahbm.synchronize();  // queued kernels hold their operands
    return dut.torch.ahbm.memory_allocated() - before;
  };
  {
    const Tensor y = chain({x});
    CHECK(held() == 4 * 4096);
  }
  const Tensor y = checkpoint(chain, {x});
  CHECK(held() == 4096);
}

TEST_CASE("as in torch, a checkpoint of inputs without gradients records nothing",
          "[nn][checkpoint]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.leaf({3}, 1);
  const Tensor x = dut.torch.zeros({3}, {.dp = DPPolicy::on_one_pe()});
  const auto times = [&](const std::vector<Tensor>& in) { return in[0] * w; };
  CHECK(!checkpoint(times, {x}).requires_grad());
  CHECK_THAT(error([&] { checkpoint(times, {}); }), Says("KB-M001", "checkpoint"));
}

}  // namespace
}  // namespace kernbench::test::checkpoint_test
