// copy_ is recorded as in PyTorch: the expectations are what torch 1.13 gives.

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::copy_test {
namespace {

std::string misuse(const std::function<void()>& action) {
  return error_of<CollectiveError>(action);
}

Tensor host(const Floats& elements, const Shape& shape) {
  return RuntimeContext::tensor(elements, shape);
}

// A leaf that requires a gradient.
Tensor leaf(OperatorsUnderTest& dut, const Floats& elements, const std::string& name = "x") {
  const Shape shape{static_cast<std::int64_t>(elements.size())};
  return dut.tensor(shape, elements, DPPolicy::on_one_pe(), DType::f32, name).requires_grad_();
}

Tensor fresh(OperatorsUnderTest& dut, const Shape& shape) {
  return dut.torch.zeros(shape, {.dp = DPPolicy::on_one_pe(), .name = "b"});
}

TEST_CASE("a gradient flows through copy_ into a fresh tensor", "[autograd][copy]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  Tensor b = fresh(dut, {2});
  b.copy_(x * x);
  CHECK(b.requires_grad());
  CHECK_FALSE(b.is_leaf());
  (sum(b) + sum(x)).backward();
  CHECK(x.grad().to_vector() == Floats{3, 5});
}

TEST_CASE("what was overwritten has gradient 0", "[autograd][copy]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  const Tensor y = leaf(dut, {3, 4});
  Tensor b = x * x;
  SECTION("by a computed tensor") {
    b.copy_(y * y);
    sum(b).backward();
    CHECK(y.grad().to_vector() == Floats{6, 8});
  }
  SECTION("by a constant on the device") {
    b.copy_(fresh(dut, {2}));
    sum(b).backward();
  }
  SECTION("by a host tensor") {
    b.copy_(host({5, 6}, {2}));
    CHECK(b.requires_grad());
    sum(b).backward();
  }
  CHECK(x.grad().to_vector() == Floats{0, 0});
}

TEST_CASE("what was computed before copy_ keeps its own history", "[autograd][copy]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  const Tensor y = leaf(dut, {3, 4});
  Tensor b = x + x;
  const Tensor before = sum(b);
  b.copy_(y);
  (before + sum(b)).backward();
  CHECK(x.grad().to_vector() == Floats{2, 2});
  CHECK(y.grad().to_vector() == Floats{1, 1});
}

TEST_CASE("copies follow each other", "[autograd][copy]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  Tensor b = fresh(dut, {2});
  b.copy_(x * 2);
  b.copy_(b * 3);
  sum(b).backward();
  CHECK(x.grad().to_vector() == Floats{6, 6});
}

TEST_CASE("a leaf that requires a gradient is not written in place", "[autograd][copy]") {
  OperatorsUnderTest dut;
  Tensor x = leaf(dut, {1, 2});
  const Tensor y = leaf(dut, {3, 4});
  const Says refused("KB-A008", "'x' [2]", "NoGradGuard", "detach()",
                     "a leaf Variable that requires grad is being used in an in-place operation.");
  CHECK_THAT(misuse([&] { x.copy_(y); }), refused);
  CHECK_THAT(misuse([&] { x.copy_(fresh(dut, {2})); }), refused);
  CHECK(x.to_vector() == Floats{1, 2});
  CHECK_THAT(
      misuse([&] { x[0].copy_(y[1]); }),
      Says("KB-A008",
           "a view of a leaf Variable that requires grad is being used in an in-place operation.",
           "'x' []"));
  SECTION("but without gradients") {
    const NoGradGuard no_grad(dut.torch);
    x.copy_(y);
  }
  SECTION("but through detach()") {
    Tensor elements = x.detach();
    elements.copy_(y);
    CHECK(elements.requires_grad());
  }
  SECTION("but from a host tensor, which loads it") {
    x.copy_(host({3, 4}, {2}));
  }
  CHECK(x.is_leaf());
  CHECK(x.to_vector() == Floats{3, 4});
  sum(x * x).backward();
  CHECK(x.grad().to_vector() == Floats{6, 8});
}

TEST_CASE("without gradients copy_ records nothing", "[autograd][copy]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  Tensor b = fresh(dut, {2});
  Tensor c = x * 3;
  {
    const NoGradGuard no_grad(dut.torch);
    b.copy_(x);
    c.copy_(x);
  }
  CHECK_FALSE(b.requires_grad());
  sum(c).backward();  // by the history that it had
  CHECK(x.grad().to_vector() == Floats{3, 3});
}

TEST_CASE("copy_ of a detached tensor is copy_ of a constant", "[autograd][copy]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  Tensor b = fresh(dut, {2});
  b.copy_(x.detach());
  CHECK_FALSE(b.requires_grad());
  sum(b * x).backward();
  CHECK(x.grad().to_vector() == Floats{1, 2});
}

TEST_CASE("what was saved and then copied into is found", "[autograd][copy]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  Tensor b = x * 2;
  const Tensor y = sum(b * b);
  b.copy_(x);
  CHECK_THAT(misuse([&] { y.backward(); }), Says("KB-A005"));
}

TEST_CASE("a gradient has the type and the placement of what was copied", "[autograd][copy]") {
  OperatorsUnderTest dut;
  const Shard cut = GENERATE(Shard::replicate, Shard::row_wise, Shard::column_wise, Shard::partial);
  const Tensor x = dut.tensor({2, 4}, small_integers(8, 1), on_pes(cut), DType::f16, "x");
  Tensor(x).requires_grad_();
  Tensor b = dut.torch.zeros({2, 4}, {.dtype = DType::f32, .dp = on_cubes(Shard::column_wise)});
  b.copy_(x);
  const Floats weights = {1, 2, 3, 4, 5, 6, 7, 8};
  b.backward(dut.tensor({2, 4}, weights, on_cubes(Shard::column_wise)));
  CHECK(x.grad().dtype() == DType::f16);
  CHECK(x.grad().dp() == gradient_policy(on_pes(cut)));
  CHECK(x.grad().to_vector() == weights);
}

TEST_CASE("copy_shard_ refuses to lose a gradient", "[autograd][copy]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  CHECK_THAT(misuse([&] { fresh(dut, {2}).copy_shard_(0, x); }), Says("KB-A008", "copy_shard_"));
  fresh(dut, {2}).copy_shard_(0, x.detach());
}

TEST_CASE("writing a view gives its base another history", "[autograd][copy][view]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  SECTION("a row of a fresh tensor") {
    Tensor b = fresh(dut, {2, 2});
    b[1].copy_(x * x);
    CHECK(b.requires_grad());
    (sum(b * b)).backward();  // x^4
    CHECK(x.grad().to_vector() == Floats{4, 32});
  }
  SECTION("a row of a computed tensor: the others keep theirs") {
    const Tensor y = leaf(dut, {1, 2, 3, 4}, "y");
    Tensor b = reshape(y * y, {2, 2});
    b[0].copy_(x * 5);
    sum(b).backward();
    CHECK(x.grad().to_vector() == Floats{5, 5});
    CHECK(y.grad().to_vector() == Floats{0, 0, 6, 8});
  }
  SECTION("a reshaped tensor") {
    Tensor b = fresh(dut, {1, 2});
    reshape(b, {2}).copy_(x * 5);
    sum(b * b).backward();
    CHECK(x.grad().to_vector() == Floats{50, 100});
  }
  SECTION("a view of a view") {
    Tensor b = fresh(dut, {4});
    const Tensor rows = reshape(b, {2, 2});
    rows[1][0].copy_(x[1] * 5);
    CHECK(b.to_vector() == Floats{0, 0, 10, 0});
    sum(b * b).backward();
    CHECK(x.grad().to_vector() == Floats{0, 100});
    CHECK(rows.requires_grad());
  }
}

TEST_CASE("views follow the history of their base", "[autograd][copy][view]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  Tensor b = fresh(dut, {2, 2});
  const Tensor first = b[0];
  const Tensor second = b[1];
  SECTION("when the base is written") {
    b.copy_(reshape(leaf(dut, {0, 0, 0, 0}) * 2, {2, 2}));
    CHECK(first.requires_grad());
  }
  SECTION("when another view is written") {
    Tensor(first).copy_(x * 3);
    sum(second).backward({}, true);
    CHECK(x.grad().to_vector() == Floats{0, 0});
    sum(b[0]).backward();
    CHECK(x.grad().to_vector() == Floats{3, 3});
  }
}

TEST_CASE("a view that was made without gradients is not written with them",
          "[autograd][copy][view]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  Tensor b = fresh(dut, {2, 2});
  Tensor row;
  {
    const NoGradGuard no_grad(dut.torch);
    row = b[0];
  }
  CHECK_THAT(misuse([&] { row.copy_(x); }), Says("KB-A009",
                                                 "A view was created in no_grad mode and is being "
                                                 "modified inplace with grad mode enabled."));
  row.copy_(x.detach());
  CHECK(b.to_vector() == Floats{1, 2, 0, 0});
  CHECK_FALSE(b.requires_grad());
}

TEST_CASE("a detached tensor is no view for gradients", "[autograd][copy][view]") {
  OperatorsUnderTest dut;
  const Tensor x = leaf(dut, {1, 2});
  Tensor b = fresh(dut, {2});
  Tensor elements = b.detach();
  elements.copy_(x * 2);
  CHECK(elements.requires_grad());
  CHECK_FALSE(b.requires_grad());
  CHECK(b.to_vector() == Floats{2, 4});
}

}  // namespace
}  // namespace kernbench::test::copy_test
