// kb::compile (ADR-0242): every value and every gradient is that of the same function without it,
// bit by bit; kernels and traffic are those of a closed form.

#include "runtime/autograd/autograd.h"
#include "runtime/nn/layers.h"
#include "test/runtime/functional/compiled_functions.h"

namespace kernbench::test::compiled {
namespace {

using nn::functional::gelu;
using nn::functional::silu;

TEST_CASE("a compiled chain is one kernel that loads its inputs and stores its result",
          "[compile]") {
  Counted dut;
  const Tensor a = dut.input(1);
  const Tensor b = dut.input(2);
  const auto gated = [](const Tensor& x, const Tensor& y) { return silu(x) * y + 1; };
  Tensor eager;
  Tensor compiled;
  CHECK(dut.of([&] { eager = gated(a, b); }) == Work{3, dut.bytes(4), dut.bytes(3)});
  CHECK(dut.of([&] { compiled = compile(gated)(a, b); }) == Work{1, dut.bytes(2), dut.bytes(1)});
  CHECK(compiled.to_vector() == eager.to_vector());
}

TEST_CASE("the backward of a compiled chain is one kernel, which computes again what it needs",
          "[compile]") {
  Counted dut;
  const Tensor a = dut.input(1).requires_grad_();
  const Tensor b = dut.input(2).requires_grad_();
  const Tensor dy = dut.input(3);
  const auto gated = [](const Tensor& x, const Tensor& y) { return silu(x) * y; };
  const Tensor eager = gated(a, b);
  // silu(x) is stored, and dy * y is: 3 kernels load 2 tensors each.
  CHECK(dut.of([&] { eager.backward(dy); }) == Work{3, dut.bytes(6), dut.bytes(3)});
  const Floats of_a = a.grad().to_vector();
  const Floats of_b = b.grad().to_vector();
  Tensor(a).zero_grad();
  Tensor(b).zero_grad();
  const Tensor compiled = compile(gated)(a, b);
  CHECK(dut.of([&] { compiled.backward(dy); }) == Work{1, dut.bytes(3), dut.bytes(2)});
  CHECK(a.grad().to_vector() == of_a);
  CHECK(b.grad().to_vector() == of_b);
}

TEST_CASE("a compiled chain of n operators saves 2 (n - 1) transfers of its tensor", "[compile]") {
  Counted dut;
  const Tensor x = dut.input(1);
  const auto chain = [](const Tensor& of, int operators) {
    Tensor y = of;
    for (int i = 0; i < operators; ++i) y = y * 0.5;
    return y;
  };
  for (const int n : {1, 2, 7, 64}) {
    const auto run = [&](const Tensor& of) { return chain(of, n); };
    CHECK(dut.of([&] { run(x); }) == Work{static_cast<std::size_t>(n), dut.bytes(n), dut.bytes(n)});
    CHECK(dut.of([&] { compile(run)(x); }) == Work{1, dut.bytes(1), dut.bytes(1)});
  }
  // A kernel has at most 64 operators.
  CHECK(dut.of([&] { compile([&](const Tensor& of) { return chain(of, 65); })(x); }) ==
        Work{2, dut.bytes(2), dut.bytes(2)});
}

TEST_CASE("compiled operators keep no intermediate value in HBM", "[compile]") {
  Counted dut;
  const Tensor x = dut.input(1);
  const auto peak = [&](const auto& of) {
    dut.torch.ahbm.reset_peak_memory_stats();
    const Bytes before = dut.torch.ahbm.memory_allocated();
    const Tensor y = of(x);
    return dut.torch.ahbm.max_memory_allocated() - before;
  };
  const auto chain = [](const Tensor& of) {
    const Tensor a = of * 2;
    const Tensor b = a + of;
    const Tensor c = exp(b);
    return c - a;
  };
  CHECK(peak(chain) == dut.bytes(4));
  CHECK(peak(compile(chain)) == dut.bytes(1));
}

TEST_CASE("other operators end a compiled chain and begin another one", "[compile]") {
  Counted dut;
  const Shape square{64, 64};
  const Tensor x = dut.input(1, square);
  const Tensor w = dut.input(2, square);
  const auto mlp = [&](const Tensor& of) { return relu(matmul(silu(of) * 2, w) + 1) * 0.5; };
  Tensor eager;
  Tensor compiled;
  const Work without = dut.of([&] { eager = mlp(x); });
  const Work with = dut.of([&] { compiled = compile(mlp)(x); });
  CHECK(without.kernels == 6);
  CHECK(with.kernels == 3);
  // silu and + are not stored and loaded again, nor is relu.
  CHECK(without.loaded - with.loaded == dut.bytes(3, square));
  CHECK(without.stored - with.stored == dut.bytes(3, square));
  CHECK(compiled.to_vector() == eager.to_vector());
}

std::vector<Case> cases() {
  return {
      {"arithmetic", [](auto& a, auto& b, auto&) { return (a + b) * a / (b * b + 2.5) - 0.1; }},
      {"functions",
       [](auto& a, auto& b, auto&) { return gelu(a) * tanh(b) + exp(a * 0.3) - sigmoid(-b); }},
      {"a value used often",
       [](auto& a, auto& b, auto&) {
         const Tensor t = silu(a) * b;
         return t * t + t * a - maximum(t, b);
       }},
      {"broadcast", [](auto& a, auto& b, auto& row) { return (a * (row * 2 + 1) + row) * b; }},
      {"choices",
       [](auto& a, auto& b, auto&) { return where(a > b, a.clamp(-1, 1), b.abs()) * 3; }},
      {"another type",
       [](auto& a, auto& b, auto&) {
         return (a.to(DType::f32) * 1.1 + b.to(DType::f32)).to(a.dtype()) * 0.7;
       }},
      {"in place",
       [](auto& a, auto& b, auto&) {
         const Tensor t = a * 2;
         const Tensor before = t + b;
         t.add_(b).mul_(3);
         return before * t;
       }},
      {"views",
       [](auto& a, auto& b, auto&) {
         const Tensor t = (a + b) * 0.5;
         return t * 3 +
                t.view({4, 2, 6}).transpose(0, 1).transpose(0, 1).contiguous().view({4, 12}) * a;
       }},
      {"a reduction",
       [](auto& a, auto& b, auto&) { return (a * b + 1) / ((a * a).sum(0, true) + 1) * b; }},
      {"linear", [](auto& a, auto& b, auto&) { return (a - b) * 0.3 + b / 7 - a; }, true},
  };
}

TEST_CASE("compiled functions compute the bits of the functions, and their gradients",
          "[compile]") {
  const std::vector<DPPolicy> placements = {DPPolicy::on_one_pe(), on_pes(kR), on_pes(kRow),
                                            on_cubes(kColumn), on_pes(kPartial)};
  for (const Case& of : cases()) {
    for (const DPPolicy& dp : placements) {
      if (dp.pe == kPartial && !of.is_linear) continue;
      if (of.name == "views" && is_sharded(dp.pe)) continue;
      if (of.name == "a reduction" && dp.pe == kRow) continue;
      for (const DType dtype : kDTypes) {
        if (of.name == "views" && dp.cube == kColumn) continue;
        INFO(of.name << " " << name_of(dtype) << " " << static_cast<int>(dp.cube) << " "
                     << static_cast<int>(dp.pe));
        const Outcome eager = run(of, dp, dtype, false);
        const Outcome compiled = run(of, dp, dtype, true);
        CHECK(compiled.has_values_of(eager));
        CHECK(compiled.kernels < eager.kernels);
      }
    }
  }
}

// The gradients of cat and stack are views of a deferred value that nobody has a handle to any
// more.
TEST_CASE("gradients of what is put together are parts of deferred values", "[compile]") {
  const std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> functions = {
      [](auto& a, auto& b) {
        return cat({a, b}) * 0.5;
      },
      [](auto& a, auto& b) {
        return cat({a, b}, 1) * 0.5;
      },
      [](auto& a, auto& b) {
        return silu(cat({a, b}));
      },
      [](auto& a, auto& b) {
        return stack({a, b}) * 0.5;
      },
      [](auto& a, auto& b) {
        return stack({a, b}, -1) * 0.5;
      }};
  for (const auto& of : functions) {
    for (const DPPolicy& dp : {DPPolicy::on_one_pe(), on_pes(kR)}) {
      OperatorsUnderTest dut;
      const auto gradients = [&](const auto& function) {
        const Tensor a = dut.leaf({2, 3}, 1, dp);
        const Tensor b = dut.leaf({2, 3}, 2, dp);
        function(a, b).square().sum().backward();
        return std::vector{b.grad().to_vector(), a.grad().to_vector()};
      };
      CHECK(gradients(compile(of)) == gradients(of));
    }
  }
}

TEST_CASE("integers and bools are fused exactly", "[compile]") {
  Counted dut;
  const Tensor n = dut.torch.arange(64).view({8, 8});
  const Tensor low = n - n + 255;
  const auto of = [&](const Tensor& x) {
    return ((x * 1'000'003 + 17) & low).masked_fill((x > 20) & ~(x == 40), 7);
  };
  Tensor compiled;
  const Work work = dut.of([&] { compiled = compile(of)(n); });
  CHECK(work == Work{1, 64 * 8 * 2, 64 * 8});
  CHECK(compiled.dtype() == DType::i64);
  CHECK(compiled.to_vector<std::int64_t>() == of(n).to_vector<std::int64_t>());
}

TEST_CASE("results that lie alike are computed together, in any container", "[compile]") {
  Counted dut;
  const Tensor a = dut.input(1);
  const Tensor b = dut.input(2);
  const auto list = compile([](const Tensors& of) {
    const Tensor sum = of[0] + of[1];
    return Tensors{sum, sum * 2, sum};
  });
  Tensors results;
  CHECK(dut.of([&] { results = list(Tensors{a, b}); }) == Work{1, dut.bytes(2), dut.bytes(2)});
  CHECK(results[1].to_vector() == ((a + b) * 2).to_vector());
  CHECK(results[2].to_vector() == results[0].to_vector());
  const auto pair = compile([](const Tensor& x) { return std::pair(x + 1, x.sum()); });
  const auto [plus, sum] = pair(a);
  CHECK(plus.to_vector() == (a + 1).to_vector());
  CHECK(sum.item() == a.sum().item());
}

TEST_CASE("a value that leaves a compiled call otherwise is computed when it is used",
          "[compile]") {
  Counted dut;
  Tensor x = dut.input(1);
  Tensor kept;
  const auto of = compile([&](const Tensor& a) {
    kept = a * 3;
    return kept + 1;
  });
  Tensor y;
  CHECK(dut.of([&] { y = of(x); }) == Work{1, dut.bytes(1), dut.bytes(1)});
  CHECK(kept.to_vector() == (x * 3).to_vector());
  // Before its operand is written it is computed, too.
  of(x);
  const Floats expected = (x * 3).to_vector();
  x.zero_();
  CHECK(kept.to_vector() == expected);
  of(x);
  x.copy_(RuntimeContext::tensor(Floats(1024, 1), {16, 64}));
  CHECK(kept.sum().item() == 0);
  of(x);
  x.normal_();
  CHECK(kept.sum().item() == 3 * 1024);
}

TEST_CASE("compiled calls nest, and every call may have other shapes and types", "[compile]") {
  Counted dut;
  const auto inner = compile([](const Tensor& x) { return x * 2 + 1; });
  const auto outer = compile([&](const Tensor& x) { return inner(x) * x; });
  for (const Shape& shape : {Shape{16, 64}, Shape{3}, Shape{2, 3, 5}}) {
    const Tensor x = dut.input(1, shape);
    Tensor y;
    CHECK(dut.of([&] { y = outer(x); }).kernels == 1);
    CHECK(y.to_vector() == ((x * 2 + 1) * x).to_vector());
    const Tensor half = x.to(DType::f16);
    CHECK(outer(half).to_vector() == ((half * 2 + 1) * half).to_vector());
  }
  // Outside, operators are kernels again.
  const Tensor x = dut.input(1);
  CHECK(dut.of([&] { x * 2 + 1; }).kernels == 2);
}

TEST_CASE("a call that throws leaves its operators as they were", "[compile]") {
  Counted dut;
  const Tensor x = dut.input(1);
  Tensor kept;
  const auto of = compile([&](const Tensor& a) {
    kept = a * 2 + 1;
    return kept + dut.input(2, {3});
  });
  CHECK_THAT(error([&] { of(x); }), Says("KB-F001"));
  CHECK(dut.of([&] { x * 2 + 1; }).kernels == 2);
  CHECK(kept.to_vector() == (x * 2 + 1).to_vector());
}

TEST_CASE("what autograd offers works on a compiled function", "[compile]") {
  Counted dut;
  const auto of = [](const Tensor& a, const Tensor& b) { return exp(a * b) * b; };
  const auto compiled = compile(of);
  const Tensor a = dut.input(1).requires_grad_();
  const Tensor b = dut.input(2).requires_grad_();
  of(a, b).sum().backward();
  const Floats of_a = a.grad().to_vector();
  SECTION("grad()") {
    CHECK(autograd::grad({compiled(a, b).sum()}, {a})[0].to_vector() == of_a);
  }
  SECTION("hooks, retained gradients and graphs") {
    Tensor(a).zero_grad();
    const Tensor y = compiled(a, b);
    y.retain_grad();
    int calls = 0;
    a.register_hook([&](const Tensor& gradient) {
      ++calls;
      return gradient * 2;
    });
    y.sum().backward({}, true);
    CHECK(calls == 1);
    CHECK(y.grad().sum().item() == 1024);
    CHECK((a.grad() / 2).to_vector() == of_a);
    y.sum().backward();
    CHECK((a.grad() / 4).to_vector() == of_a);
  }
  SECTION("checkpoint, inside and outside") {
    const auto block = [&](const Tensors& x) { return of(x[0], x[1]); };
    Tensor(a).zero_grad();
    compile([&](const Tensor& x, const Tensor& y) {
      return nn::utils::checkpoint(block, {x, y});
    })(a, b)
        .sum()
        .backward();
    CHECK(a.grad().to_vector() == of_a);
    Tensor(a).zero_grad();
    nn::utils::checkpoint([&](const Tensors& x) { return compiled(x[0], x[1]); }, {a, b})
        .sum()
        .backward();
    CHECK(a.grad().to_vector() == of_a);
  }
  SECTION("nothing is recorded without gradients") {
    const NoGradGuard no_grad(dut.torch);
    CHECK_FALSE(compiled(a, b).requires_grad());
  }
  SECTION("a tensor that was saved and written") {
    const Tensor c = dut.input(3);
    const Tensor y = compiled(a, c);
    c.add_(1);
    CHECK_THAT(error_of<CollectiveError>([&] { y.sum().backward(); }), Says("KB-A005"));
  }
}

TEST_CASE("a module is compiled", "[compile]") {
  Counted dut;
  nn::Sequential model(nn::Linear(dut.torch, 64, 32), nn::GELU(), nn::Linear(dut.torch, 32, 8));
  const auto compiled = compile(model);
  const Tensor x = dut.input(1);
  CHECK(compiled(x).to_vector() == model(x).to_vector());
  const auto gradients = [&](const auto& net) {
    model->zero_grad();
    net(x).square().sum().backward();
    std::vector<Floats> all;
    for (const Tensor& parameter : model->parameters()) all.push_back(parameter.grad().to_vector());
    return all;
  };
  CHECK(gradients(compiled) == gradients(model));
}

}  // namespace
}  // namespace kernbench::test::compiled
