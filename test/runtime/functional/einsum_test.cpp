// einsum against plain loops, and what it refuses.

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::einsum_test {
namespace {

TEST_CASE("einsum is matmul, with its bits and gradients", "[einsum]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const DPPolicy one = DPPolicy::on_one_pe();
  const auto leaf = [&](const Shape& shape, int seed) { return dut.leaf(shape, seed, one, dtype); };
  const Tensor q = leaf({2, 3, 4, 8}, 1);
  const Tensor k = leaf({2, 3, 5, 8}, 2);
  const Tensor scores = einsum("bhid,bhjd->bhij", {q, k});
  CHECK(scores.equal(q.matmul(k.transpose(-1, -2))));
  const Tensor a = leaf({4, 6}, 3);
  const Tensor b = leaf({6, 5}, 4);
  const Tensor c = einsum("ik, kj", {a, b});
  CHECK(c.equal(matmul(a, b)));
  const Tensor dc = dut.tensor({4, 5}, small_integers(20, 5), one, dtype);
  c.backward(dc);
  CHECK(a.grad().equal(matmul(dc, b.t())));
  CHECK(b.grad().equal(matmul(a.t(), dc)));
  CHECK(einsum("bhid,bhjd->bihj", {q, k}).equal(scores.transpose(1, 2)));
}

TEST_CASE("a product of einsum is one kernel where its factors can be read in place", "[einsum]") {
  OperatorsUnderTest dut;
  const Tensor q = dut.leaf({2, 3, 4, 8}, 1).detach();
  const Tensor k = dut.leaf({2, 3, 5, 8}, 2).detach();
  const std::size_t before = dut.torch.engine().results().size();
  (void)einsum("bhid,bhjd->bhij", {q, k});
  dut.torch.ahbm.synchronize();
  CHECK(dut.torch.engine().results().size() == before + 1);
}

TEST_CASE("einsum sums, exchanges, repeats and takes diagonals", "[einsum]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(einsum("ij->", {x}).item() == 21);
  CHECK(einsum("ij->j", {x}).to_vector() == Floats{5, 7, 9});
  CHECK(einsum("ij->ji", {x}).equal(x.t()));
  CHECK(einsum("ba", {x}).equal(x.t()));  // letters in their order
  CHECK(einsum("i,j->ij", {x[0], x[1]}).equal(outer(x[0], x[1])));
  CHECK(einsum("ij,ij->i", {x, x}).to_vector() == Floats{14, 77});
  CHECK(einsum("...j,j->...", {x, x[0]}).to_vector() == Floats{14, 32});
  CHECK(einsum("bld,bln,bld->bldn", {x.view({1, 2, 3}), x.view({1, 2, 3}), x.view({1, 2, 3})})
            .shape() == Shape{1, 2, 3, 3});
  const Tensor square = dut.tensor({2, 2}, {1, 2, 3, 4}).requires_grad_();
  CHECK(einsum("ii->i", {square}).to_vector() == Floats{1, 4});
  const Tensor trace = einsum("ii", {square});
  CHECK(trace.item() == 5);
  trace.backward();
  CHECK(square.grad().to_vector() == Floats{1, 0, 0, 1});
  const Tensor row = dut.tensor({1, 3}, {1, 1, 2});
  CHECK(einsum("ij,ij->i", {x, row}).to_vector() == Floats{9, 21});  // 1 broadcasts
}

TEST_CASE("einsum refuses what torch refuses", "[einsum]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 3}, small_integers(6, 1));
  const auto refusal = [&](const char* equation, const std::vector<Tensor>& operands) {
    return error([&] { (void)einsum(equation, operands); });
  };
  CHECK_THAT(refusal("ij,jk", {x}), Says("KB-F001", "operands were provided than specified"));
  CHECK_THAT(refusal("ijk", {x}), Says("KB-F001", "does not match the number of dimensions (2)"));
  CHECK_THAT(refusal("ij->k", {x}), Says("KB-F001", "does not appear in the equation"));
  CHECK_THAT(refusal("ij->ii", {x}), Says("KB-F001", "more than once in the output"));
  CHECK_THAT(refusal("i1", {x}), Says("KB-F001", "invalid subscript given at index 1"));
  CHECK_THAT(refusal("ii", {x}), Says("KB-F001", "the sizes don't match, 3 != 2"));
  CHECK_THAT(refusal("ij,ij->i", {x, x.t()}),
             Says("KB-F001", "subscript i has size 3 for operand 1 which does not broadcast"));
}

}  // namespace
}  // namespace kernbench::test::einsum_test
