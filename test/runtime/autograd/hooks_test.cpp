// Hooks on gradients, and what backward() leaves in grad().

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::hooks_test {
namespace {

TEST_CASE("a hook sees a gradient when it is complete, and may replace it", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.leaf({2}, 1);
  Floats seen;
  const unsigned number = w.register_hook([&](const Tensor& dw) { seen = dw.to_vector(); });
  w.register_hook([](const Tensor& dw) { return dw * 2; });
  const Tensor x = dut.tensor({2}, {3, 4});
  (w * x + w).sum().backward();
  CHECK(seen == Floats{4, 5});
  CHECK(w.grad().to_vector() == Floats{8, 10});
  w.remove_hook(number);
  seen.clear();
  (w * x).sum().backward();
  CHECK(seen.empty());
  CHECK(w.grad().to_vector() == Floats{14, 18});
}

TEST_CASE("a hook on what was computed changes what flows on", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.leaf({2}, 1);
  const Tensor y = w * 3;
  y.register_hook([](const Tensor& dy) { return dy * 10; });
  y.retain_grad();
  const Tensor z = w * 5;
  (y + y + z).sum().backward();
  CHECK(y.grad().to_vector() == Floats{20, 20});
  CHECK_FALSE(z.grad().defined());
  CHECK(w.grad().to_vector() == Floats{65, 65});
}

TEST_CASE("leaves get their gradients while others are computed, the last used first",
          "[autograd]") {
  OperatorsUnderTest dut;
  std::vector<std::string> order;
  const auto leaf = [&](const std::string& name) {
    Tensor made = dut.leaf({2, 2}, 1);
    made.register_post_accumulate_grad_hook([&order, name](const Tensor& of) {
      CHECK(of.grad().defined());
      order.push_back(name);
    });
    return made;
  };
  const Tensor shared = leaf("shared");
  const Tensor weight = leaf("weight");
  Tensor bias = dut.leaf({2}, 1);
  bias.register_post_accumulate_grad_hook([&](const Tensor&) { order.emplace_back("bias"); });
  const Tensor last = leaf("last");
  const Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4});
  const Tensor hidden = nn::functional::linear(matmul(x, shared), weight, bias);
  const Tensor y = matmul(hidden, shared) * last;
  y.sum().backward();
  CHECK(order == std::vector<std::string>{"last", "bias", "weight", "shared"});
}

TEST_CASE("grad can be assigned, and is added to if it fits", "[autograd]") {
  OperatorsUnderTest dut;
  Tensor w = dut.leaf({2}, 1);
  w.mutable_grad() = dut.tensor({2}, {10, 20});
  (w * 2).sum().backward();
  CHECK(w.grad().to_vector() == Floats{12, 22});
  w.mutable_grad() = dut.tensor({3}, {1, 2, 3});
  CHECK_THAT(refusal([&] { (w * 2).sum().backward(); }),
             Says("KB-A006", "assigned grad has data of a different size", "[3]"));
}

TEST_CASE("hooks that no gradient reaches are refused", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2}, {1, 2});
  const Tensor w = dut.leaf({2}, 1);
  const Tensor y = w * 2;
  CHECK_THAT(refusal([&] { x.register_hook([](const Tensor&) {}); }),
             Says("KB-A014", "cannot register a hook on a tensor that doesn't require gradient"));
  CHECK_THAT(refusal([&] { x.retain_grad(); }),
             Says("KB-A014", "can't retain_grad on Tensor that has requires_grad=False"));
  CHECK_THAT(refusal([&] { y.register_post_accumulate_grad_hook([](const Tensor&) {}); }),
             Says("KB-A014", "post accumulate grad hooks cannot be registered on non-leaf"));
  CHECK_THAT(refusal([&] { w.remove_hook(3); }), Says("KB-A014", "no hook number 3"));
  w.register_hook([&](const Tensor&) { return dut.tensor({1}, {1}); });
  CHECK_THAT(refusal([&] { w.sum().backward(); }), Says("KB-A006", "a hook on a gradient"));
}

TEST_CASE("a gradient from elsewhere lies on a device of the tensor's context", "[autograd]") {
  OperatorsUnderTest dut;
  OperatorsUnderTest other;
  struct Elsewhere {
    Tensor tensor;
    std::string_view code;
  };
  for (const auto& [gradient, code] : {Elsewhere{RuntimeContext::tensor({1, 1}), "KB-M019"},
                                       Elsewhere{other.tensor({2}, {1, 1}), "KB-M013"}}) {
    CAPTURE(code);
    const Tensor hooked = dut.leaf({2}, 1);
    hooked.register_hook([&gradient](const Tensor&) { return gradient; });
    CHECK_THAT(error([&] { hooked.sum().backward(); }), Says(code, "a hook on a gradient"));
    const Tensor computed = dut.leaf({2}, 1) * 2;
    computed.register_hook([&gradient](const Tensor&) { return gradient; });
    CHECK_THAT(error([&] { computed.sum().backward(); }), Says(code, "a hook on a gradient"));
    const Tensor assigned = dut.leaf({2}, 1);
    assigned.mutable_grad() = gradient;
    CHECK_THAT(error([&] { assigned.sum().backward(); }), Says(code, "grad() of"));
    CHECK_THAT(error([&] { (dut.leaf({2}, 1) * 2).backward(gradient); }),
               Says(code, "Mismatch of gradient and tensor"));
    const Tensor x = dut.leaf({2}, 1);
    const Tensor y = autograd::record("f", dut.tensor({2}, {0, 0}), {x},
                                      [&](const Tensor&) { return std::vector{gradient}; });
    CHECK_THAT(error([&] {
                 y.backward(dut.tensor({2}, {1, 1}));
               }),
               Says(code, "Function f returned an invalid gradient at index 0"));
  }
}

}  // namespace
}  // namespace kernbench::test::hooks_test
