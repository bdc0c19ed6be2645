// autograd::grad(), and guards.

#include "runtime/autograd/autograd.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::grad_test {
namespace {

TEST_CASE("grad() returns the gradients of leaves and leaves grad() alone", "[autograd][grad]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2}, 1);
  const Tensor w = dut.leaf({2}, 2);
  const Tensor other = dut.leaf({2}, 3);
  const Floats of_x = x.to_vector();
  const Floats of_w = w.to_vector();
  const Tensor y = x * w * w + other;
  const auto gradients = autograd::grad({y.sum()}, {w, x, w});
  REQUIRE(gradients.size() == 3);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(gradients[0].to_vector()[i] == 2 * of_x[i] * of_w[i]);
    CHECK(gradients[1].to_vector()[i] == of_w[i] * of_w[i]);
  }
  CHECK(gradients[2].to_vector() == gradients[0].to_vector());
  for (const Tensor& leaf : {x, w, other}) CHECK_FALSE(leaf.grad().defined());
}

TEST_CASE("grad() is also of what was computed, and computes no more than it needs",
          "[autograd][grad]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({3}, 1);
  const Tensor y = x * 2;
  int calls = 0;
  y.register_hook([&](const Tensor&) { ++calls; });
  const Tensor below = exp(x);
  below.register_hook([&](const Tensor&) { calls += 100; });
  const Tensor z = (y * y).sum() + below.sum();
  const auto of_y = autograd::grad({z}, {y}, {}, {.retain_graph = true});
  CHECK(of_y.front().to_vector() == (y.detach() * 2).to_vector());
  CHECK(calls == 1);
  // With several outputs, and with gradients of them.
  const Tensor dz = dut.tensor({3}, {1, 10, 100});
  const auto sums = autograd::grad({y * 3, y * 4}, {x}, {dz, dz}, {.retain_graph = true});
  CHECK(sums.front().to_vector() == Floats{14, 140, 1400});
  z.backward();  // the graph was kept
  CHECK(x.grad().defined());
}

TEST_CASE("grad() refuses what it cannot do, in torch's words", "[autograd][grad]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2}, 1);
  const Tensor unused = dut.leaf({2}, 2);
  const Tensor y = (x * x).sum();
  CHECK_THAT(refusal([&] { autograd::grad({y}, {unused}, {}, {.retain_graph = true}); }),
             Says("KB-A026", "appears to not have been used in the graph. Set allow_unused=True"));
  const auto gradients =
      autograd::grad({y}, {x, unused}, {}, {.retain_graph = true, .allow_unused = true});
  CHECK(gradients[0].defined());
  CHECK_FALSE(gradients[1].defined());
  CHECK_THAT(refusal([&] { autograd::grad({y}, {x.detach()}); }),
             Says("KB-A001", "One of the differentiated Tensors does not require grad"));
  CHECK_THAT(refusal([&] { autograd::grad({x.detach()}, {x}); }), Says("KB-A001", "element 0"));
  CHECK_THAT(refusal([&] { autograd::grad({y}, {x}, {}, {.create_graph = true}); }),
             Says("KB-A025", "create_graph=True"));
  CHECK_THAT(refusal([&] { autograd::grad({x * x}, {x}); }), Says("KB-A003", "scalar outputs"));
  autograd::grad({y}, {x});
  CHECK_THAT(refusal([&] { autograd::grad({y}, {x}); }), Says("KB-A004", "a second time"));
}

TEST_CASE("nothing is recorded in inference mode", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2}, 1);
  {
    const InferenceMode guard(dut.torch);
    CHECK_FALSE((x * 2).requires_grad());
  }
  CHECK((x * 2).requires_grad());
}

}  // namespace
}  // namespace kernbench::test::grad_test
