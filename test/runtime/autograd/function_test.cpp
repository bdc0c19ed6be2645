// Functions with derivatives of their own; the figures are torch 1.13.1's of the same functions.

#include <any>

#include "runtime/autograd/autograd.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::function_test {
namespace {

using autograd::AutogradContext;
using Catch::Matchers::Contains;
using Tensors = std::vector<Tensor>;

std::string misuse(const std::function<void()>& action) {
  return error_of<CollectiveError>(action);
}

struct Scale : autograd::Function<Scale> {
  static Tensor forward(AutogradContext* context, const Tensor& x, double by) {
    context->saved_data["by"] = by;
    return x * by;
  }
  static Tensors backward(AutogradContext* context, const Tensors& grad_outputs) {
    return {grad_outputs[0] * std::any_cast<double>(context->saved_data["by"]), {}};
  }
};

// a b and a + b, and which is larger.
struct ProductAndSum : autograd::Function<ProductAndSum> {
  static Tensors forward(AutogradContext* context, const Tensor& a, const Tensor& b) {
    context->save_for_backward({a, b});
    return {a * b, a + b, a > b};
  }
  static Tensors backward(AutogradContext* context, const Tensors& dy) {
    CHECK(dy.size() == 3);
    const Tensors saved = context->get_saved_variables();
    return {dy[0] * saved[1] + dy[1], dy[0] * saved[0] + dy[1]};
  }
};

struct NoZeros : autograd::Function<NoZeros> {
  static Tensors forward(AutogradContext* context, const Tensor& a) {
    context->set_materialize_grads(false);
    return {a * 2, a * 3};
  }
  static Tensors backward(AutogradContext*, const Tensors& dy) {
    CHECK_FALSE(dy[0].defined());
    return {dy[1] * 3};
  }
};

struct Twice : autograd::Function<Twice> {
  static Tensor forward(AutogradContext* context, Tensor x) {
    x.mul_(2);
    context->mark_dirty({x});
    return x;
  }
  static Tensors backward(AutogradContext*, const Tensors& dy) { return {dy[0] * 2}; }
};

struct TwiceAndSquare : autograd::Function<TwiceAndSquare> {
  static Tensors forward(AutogradContext* context, Tensor x, const Tensor& y) {
    x.mul_(2);
    context->mark_dirty({x});
    context->save_for_backward({y});
    return {y * y, x};
  }
  static Tensors backward(AutogradContext* context, const Tensors& dy) {
    return {dy[1] * 2, dy[0] * context->get_saved_variables()[0] * 2};
  }
};

TEST_CASE("a function has a derivative of its own", "[autograd][function]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2}, {3, 4}).requires_grad_();
  const Tensor y = Scale::apply(x, 5.0);
  CHECK(y.to_vector() == Floats{15, 20});
  sum(y * y).backward();
  CHECK(x.grad().to_vector() == Floats{2 * 15 * 5, 2 * 20 * 5});
}

TEST_CASE("a function of several results gets a gradient of each", "[autograd][function]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.tensor({2}, {3, 4}).requires_grad_();
  const Tensor b = dut.tensor({2}, {5, 2}).requires_grad_();
  const Tensors y = ProductAndSum::apply(a, b);
  CHECK(y[0].requires_grad());
  CHECK(y[1].requires_grad());
  CHECK_FALSE(y[2].requires_grad());
  SECTION("both are used") {
    sum(y[0] * 10 + y[1]).backward();
    CHECK(a.grad().to_vector() == Floats{51, 21});
    CHECK(b.grad().to_vector() == Floats{31, 41});
  }
  SECTION("one is used: the other's gradient is 0") {
    sum(y[1] * y[1]).backward();
    CHECK(a.grad().to_vector() == Floats{16, 12});
    CHECK(b.grad().to_vector() == Floats{16, 12});
  }
  SECTION("a result is used twice, with a hook") {
    y[0].register_hook([](const Tensor& dy) { return dy * 2; });
    sum(y[0] + y[0]).backward();
    CHECK(a.grad().to_vector() == Floats{20, 8});
  }
  SECTION("grad() of a result, and of an argument") {
    const Tensor loss = sum(y[0] * y[1]);
    const Tensors of = autograd::grad({loss}, {y[1], a}, {}, {.retain_graph = true});
    CHECK(of[0].to_vector() == Floats{15, 8});
    CHECK(of[1].to_vector() == Floats{5 * 8 + 15, 2 * 6 + 8});
  }
  SECTION("retain_grad() of a result") {
    y[1].retain_grad();
    sum(y[0] + y[1] * 7).backward();
    CHECK(y[1].grad().to_vector() == Floats{7, 7});
  }
  SECTION("the graph is used up, through either result") {
    sum(y[0]).backward();
    CHECK_THAT(misuse([&] { sum(y[1]).backward(); }),
               Contains("KB-A004") && Contains("ProductAndSum"));
  }
}

TEST_CASE("without materialized gradients what no gradient reaches is undefined",
          "[autograd][function]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.leaf({2}, 1);
  sum(NoZeros::apply(a)[1]).backward();
  CHECK(a.grad().to_vector() == Floats{3, 3});
}

TEST_CASE("an input that a function has written has a new history", "[autograd][function]") {
  OperatorsUnderTest dut;
  const Tensor leaf = dut.tensor({3}, {1, 2, 3}).requires_grad_();
  SECTION("a whole tensor") {
    const Tensor x = leaf * 1;
    const Tensor y = Twice::apply(x);
    CHECK(x.to_vector() == Floats{2, 4, 6});
    sum(y * x).backward();
    CHECK(leaf.grad().to_vector() == Floats{8, 16, 24});
  }
  SECTION("a view changes its base") {
    const Tensor x = leaf * 1;
    Twice::apply(x.narrow(0, 0, 1));
    CHECK(x.to_vector() == Floats{2, 2, 3});
    sum(x * x).backward();
    CHECK(leaf.grad().to_vector() == Floats{8, 4, 6});
  }
  SECTION("beside another result") {
    const Tensor x = leaf * 1;
    const Tensors y = TwiceAndSquare::apply(x, leaf);
    sum(y[0] + x).backward();
    CHECK(leaf.grad().to_vector() == Floats{2 + 2, 4 + 2, 6 + 2});
  }
  SECTION("a leaf is refused") {
    CHECK_THAT(misuse([&] { Twice::apply(leaf); }),
               Contains("KB-A008") && Contains("a leaf Variable that requires grad"));
  }
  SECTION("a view beside another result is refused") {
    const Tensor x = leaf * 1;
    CHECK_THAT(misuse([&] { TwiceAndSquare::apply(x.narrow(0, 0, 1), leaf.narrow(0, 0, 1)); }),
               Contains("KB-A030") && Contains("cannot return more than one Tensor"));
  }
}

TEST_CASE("marks and gradients that do not fit are refused", "[autograd][function]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2}, 1);
  struct Forgets : autograd::Function<Forgets> {
    static Tensor forward(AutogradContext* context, Tensor in) {
      context->mark_dirty({in});
      return in * 2;
    }
    static Tensors backward(AutogradContext*, const Tensors& dy) { return {dy[0]}; }
  };
  CHECK_THAT(misuse([&] { Forgets::apply(x * 1); }),
             Contains("KB-A030") &&
                 Contains("Some elements marked as dirty during the forward method were not"));
  struct TooFew : autograd::Function<TooFew> {
    static Tensor forward(AutogradContext* context, const Tensor& in, const Tensor& other) {
      CHECK(context->needs_input_grad(0));
      CHECK_FALSE(context->needs_input_grad(1));
      return in + other;
    }
    static Tensors backward(AutogradContext*, const Tensors& dy) { return {dy[0]}; }
  };
  const Tensor y = TooFew::apply(x, dut.tensor({2}, {1, 1}));
  CHECK_THAT(misuse([&] { sum(y).backward(); }),
             Contains("KB-A006") && Contains("incorrect number of gradients (expected 2, got 1)"));
}

TEST_CASE("a hook writes into no gradient that others use", "[autograd][hooks]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({3}, 1);
  const Tensor y = x * 1;
  y.register_hook([](const Tensor& g) { g.mul_(100); });
  CHECK_THAT(misuse([&] { sum(y + x).backward(); }),
             Contains("KB-A007") && Contains("a hook on a gradient"));
  const Tensor z = x * 1;
  z.register_hook([](const Tensor& g) { return autograd::writable(g).mul_(100); });
  sum(z + x).backward();
  CHECK(x.grad().to_vector() == Floats{101, 101, 101});
}

}  // namespace
}  // namespace kernbench::test::function_test
