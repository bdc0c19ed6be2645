// Writes of tensors that broadcast to what they are written into.

#include "runtime/functional/shape_operators.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::broadcast_copy_test {
namespace {

TEST_CASE("copy_ repeats a source along missing dimensions and those of size 1", "[copy]") {
  OperatorsUnderTest dut;
  const DPPolicy dp = GENERATE(DPPolicy::on_one_pe(), on_pes(kR), on_pes(kRow));
  const Tensor x = dut.tensor({2, 3}, Floats(6, 0), dp);
  const auto replicated = [&](const Shape& shape, const Floats& elements) {
    return dut.tensor(shape, elements, {Shard::replicate, Shard::replicate, 1, dp.num_pes});
  };
  CHECK(x.copy_(replicated({3}, {1, 2, 3})).to_vector() == Floats{1, 2, 3, 1, 2, 3});
  CHECK(x.copy_(replicated({1, 3}, {4, 5, 6})).to_vector() == Floats{4, 5, 6, 4, 5, 6});
  CHECK(x.copy_(replicated({2, 1}, {7, 8})).to_vector() == Floats{7, 7, 7, 8, 8, 8});
  CHECK(x.copy_(replicated({}, {9})).to_vector() == Floats(6, 9));
  CHECK(x.copy_(RuntimeContext::tensor({1, 2}, {2, 1})).to_vector() == Floats{1, 1, 1, 2, 2, 2});
  CHECK(x.copy_(RuntimeContext::tensor({3, 4, 5}, {3})).to_vector() == Floats{3, 4, 5, 3, 4, 5});
  x[1] = replicated({}, {-1});
  CHECK(x.to_vector() == Floats{3, 4, 5, -1, -1, -1});
  x[0] = RuntimeContext::tensor({6}, {1});
  CHECK(x.to_vector() == Floats{6, 6, 6, -1, -1, -1});
}

TEST_CASE("a slice takes what broadcasts to it, and the source gets the sum of its gradients",
          "[copy]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 4}, 1);
  const Tensor row = dut.tensor({2}, {5, 6}).requires_grad_();
  const Tensor one = dut.tensor({}, {7}).requires_grad_();
  const Tensor y = x * 2;
  y.slice(1, 1, 4, 2) = row;
  y.select(1, 0) = one;
  CHECK(y.select(1, 0).to_vector() == Floats{7, 7});
  CHECK(y.select(1, 1).to_vector() == Floats{5, 5});
  CHECK(y.select(1, 3).to_vector() == Floats{6, 6});
  (y * dut.tensor({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})).sum().backward();
  CHECK(one.grad().item() == 6);
  CHECK(row.grad().to_vector() == Floats{8, 12});
  CHECK(x.grad().to_vector() == Floats{0, 0, 6, 0, 0, 0, 14, 0});
}

TEST_CASE("a source that does not broadcast is refused in torch's words", "[copy]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, Floats(6, 0));
  CHECK_THAT(error([&] { x.copy_(dut.leaf({4}, 1).detach()); }),
             Says("KB-M015",
                  "The size of tensor a (3) must match the size of tensor b (4) at non-singleton "
                  "dimension 1"));
  for (const Shape& shape : {Shape{1, 2, 3}, Shape{2, 2, 3}}) {
    CHECK_THAT(error([&] { x.copy_(dut.leaf(shape, 1).detach()); }),
               Says("KB-M015", "output with shape [2, 3] doesn't match the broadcast shape"));
  }
  CHECK_THAT(error([&] { x.copy_(RuntimeContext::tensor({1, 2}, {2})); }), Says("KB-M015"));
}

}  // namespace
}  // namespace kernbench::test::broadcast_copy_test
