// Tests what leaves get and what a graph keeps.

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::leaf_gradients_test {
namespace {

using autograd::record;

TEST_CASE("what a leaf has already may be the gradient that is given", "[autograd]") {
  OperatorsUnderTest dut;
  Tensor a = dut.leaf({2}, 1);
  Tensor b = dut.leaf({2}, 2);
  sum(a).backward();
  (a + b).backward(a.grad());
  CHECK(a.grad().to_vector() == Floats{2, 2});
  CHECK(b.grad().to_vector() == Floats{1, 1});
  Tensor x = dut.leaf({2}, 3);
  sum(x).backward();
  const Tensor handle = x.grad();
  (x + x).backward(x.grad());
  CHECK(handle.to_vector() == Floats{3, 3});  // added in place
  // Each gets the other's.
  record("exchange", dut.tensor({2}, {0, 0}), {a, b}, [a, b](const Tensor&) {
    return std::vector{b.grad(), a.grad()};
  }).backward(dut.tensor({2}, {0, 0}));
  CHECK(a.grad().to_vector() == Floats{3, 3});
  CHECK(b.grad().to_vector() == Floats{3, 3});
}

TEST_CASE("a leaf that wants no gradient any more gets none", "[autograd]") {
  OperatorsUnderTest dut;
  Tensor x = dut.leaf({2}, 1);
  const Tensor w = dut.leaf({2}, 2);
  const Tensor y = sum(x * w);
  x.requires_grad_(false);
  y.backward();
  CHECK_FALSE(x.grad().defined());
  CHECK(w.grad().to_vector() == x.to_vector());
}

TEST_CASE("what no gradient needs is not saved", "[autograd]") {
  OperatorsUnderTest dut;
  Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4});
  const Tensor constant = dut.tensor({2, 2}, {1, 0, 0, 1});
  const Tensor w = dut.leaf({2, 2}, 1);
  const Tensor hidden = matmul(w, x);
  const Tensor y = sum(matmul(hidden, constant));
  Tensor elements = hidden.detach();
  elements.copy_(RuntimeContext::tensor(Floats{0, 0, 0, 0}, {2, 2}));
  y.backward();
  CHECK(w.grad().to_vector() == Floats{3, 7, 3, 7});
}

TEST_CASE("an input that is given back as the result stays as it is", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2}, {1, 2});
  const Tensor w = dut.leaf({2}, 1);
  const Tensor y = record("f", x, {x, w}, [](const Tensor& dy) {
    return std::vector{Tensor(), dy};
  });
  CHECK(y.requires_grad());
  CHECK_FALSE(x.requires_grad());
  CHECK(x.is_leaf());
}

}  // namespace
}  // namespace kernbench::test::leaf_gradients_test
