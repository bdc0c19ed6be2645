#include "runtime/autograd/autograd.h"

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "sim_engine/components/hbm_allocator.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::autograd_test {
namespace {

using autograd::record;
using autograd::SavedTensor;

std::string misuse(const std::function<void()>& action) {
  return error_of<CollectiveError>(action);
}

TEST_CASE("a leaf gets the gradient of what was computed from it", "[autograd]") {
  OperatorsUnderTest dut;
  Tensor x = dut.tensor({2}, {3, 4});
  CHECK_FALSE(x.requires_grad());
  CHECK_FALSE(x.grad().defined());
  CHECK(x.requires_grad_().requires_grad());
  CHECK(x.is_leaf());
  const Tensor y = sum(x * x);
  CHECK(y.requires_grad());
  CHECK_FALSE(y.is_leaf());
  y.backward();
  CHECK(x.grad().to_vector() == Floats{6, 8});
  CHECK_FALSE(x.grad().requires_grad());
  CHECK_FALSE(y.grad().defined());
}

TEST_CASE("gradients of several uses and several passes add up", "[autograd]") {
  OperatorsUnderTest dut;
  Tensor x = dut.leaf({2, 2}, 1);
  sum(x + x + x).backward();
  CHECK(x.grad().to_vector() == Floats(4, 3));
  const Tensor seen = x.grad();
  sum(x).backward();
  CHECK(x.grad().to_vector() == Floats(4, 4));
  CHECK(seen.to_vector() == Floats(4, 4));  // one tensor, as in PyTorch
  x.zero_grad();
  CHECK_FALSE(x.grad().defined());
  sum(x).backward();
  CHECK(x.grad().to_vector() == Floats(4, 1));
  CHECK(seen.to_vector() == Floats(4, 4));
}

TEST_CASE("two leaves do not share a gradient", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor a = dut.leaf({2}, 1);
  const Tensor b = dut.leaf({2}, 2);
  const Tensor given = dut.tensor({2}, {1, 2});
  (a + b).backward(given);
  a.grad().copy_(RuntimeContext::tensor({7, 7}, {2}));
  CHECK(b.grad().to_vector() == Floats{1, 2});
  CHECK(given.to_vector() == Floats{1, 2});
}

TEST_CASE("a gradient that nobody else has is not copied", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 2}, 1);
  const auto launches_of = [&](const Tensor& y) {
    const std::size_t before = dut.torch.engine().results().size();
    y.backward();
    return dut.torch.engine().results().size() - before;
  };
  CHECK(launches_of(sum(x)) == 1);                // expand
  CHECK(launches_of(sum(reshape(x, {4}))) == 2);  // and add it to what is there
}

TEST_CASE("leaves that require nothing get nothing", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 2}, 1);
  const Tensor w = dut.tensor({2, 2}, {1, 2, 3, 4});
  const Tensor y = matmul(x, w);
  const std::size_t before = dut.torch.engine().results().size();
  y.backward(dut.tensor({2, 2}, {1, 1, 1, 1}));
  CHECK(dut.torch.engine().results().size() - before == 1);  // one of the two products
  CHECK_FALSE(w.grad().defined());
  CHECK(x.grad().to_vector() == Floats{3, 7, 3, 7});
}

TEST_CASE("a graph can be used once, or again if it is retained", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2}, 1);
  const Tensor y = sum(x * x);
  y.backward({}, true);
  y.backward({}, true);
  y.backward();
  const Floats of_x = x.to_vector();
  CHECK(x.grad().to_vector() == Floats{6 * of_x[0], 6 * of_x[1]});
  CHECK_THAT(misuse([&] { y.backward(); }),
             Says("KB-A004",
                  "Trying to backward through the graph a second time (or directly access saved "
                  "tensors after they have already been freed)"));
}

TEST_CASE("without a graph, or a scalar, backward says what is missing", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2}, {1, 2}, DPPolicy::on_one_pe(), DType::f32, "x");
  CHECK_THAT(
      misuse([&] { x.backward(); }),
      Says("KB-A001", "element 0 of tensors does not require grad and does not have a grad_fn",
           "'x'", "requires_grad_()"));
  Tensor w = dut.leaf({2}, 1);
  CHECK_THAT(misuse([&] { (w + w).backward(); }),
             Says("KB-A003", "grad can be implicitly created only for scalar outputs",
                  "'add' is [2]", "sum()"));
  CHECK_THAT(misuse([&] {
               (w + w).backward(dut.tensor({1, 2}, {1, 1}));
             }),
             Says("KB-A006", "got [1, 2] f32", "expected shape compatible with [2] f32"));
  CHECK_THAT(misuse([&] { (w + w).requires_grad_(false); }),
             Says("KB-A002", "you can only change requires_grad flags of leaf variables."));
  CHECK_THAT(misuse([&] { RuntimeContext::tensor({1}, {1}).requires_grad_(); }),
             Says("KB-A002", "only tensors on a device"));
  CHECK_THROWS_MATCHES((w + w).backward(RuntimeContext::tensor({1, 1}, {2})), DeviceError,
                       Says("KB-M019", "gradient"));
  CHECK_FALSE(w.requires_grad_(false).requires_grad());
}

TEST_CASE("a leaf may be the end itself", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({}, 1);
  x.backward();
  x.backward();
  CHECK(x.grad().item() == 2);
}

TEST_CASE("nothing is recorded without gradients", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2}, 1);
  CHECK(is_grad_enabled(simulation_of(dut.torch)));
  {
    const NoGradGuard no_grad(dut.torch);
    CHECK_FALSE(is_grad_enabled(simulation_of(dut.torch)));
    { const NoGradGuard inner(dut.torch); }
    CHECK_FALSE((x + x).requires_grad());
    CHECK_FALSE(autograd::needs_grad(x));
  }
  CHECK((x + x).requires_grad());
  CHECK(autograd::needs_grad(Tensor(), x));
}

TEST_CASE("each rank has its own mode", "[autograd]") {
  OperatorsUnderTest dut;
  std::vector<bool> enabled(2);
  run_on_devices(dut.torch, 2, [&](int rank) {
    std::optional<NoGradGuard> no_grad;
    if (rank == 0) no_grad.emplace(dut.torch);
    dut.leaf({2}, 1);  // waits, so that the other rank runs meanwhile
    enabled[static_cast<std::size_t>(rank)] = is_grad_enabled(simulation_of(dut.torch));
  });
  CHECK(enabled == std::vector<bool>{false, true});
}

TEST_CASE("detach shares memory and is not recorded", "[autograd]") {
  OperatorsUnderTest dut;
  Tensor x = dut.leaf({2}, 1);
  const Tensor y = x.detach();
  CHECK_FALSE(y.requires_grad());
  x.copy_(RuntimeContext::tensor({8, 9}, {2}));
  CHECK(y.to_vector() == Floats{8, 9});
  sum(x * y).backward();
  CHECK(x.grad().to_vector() == Floats{8, 9});
}

TEST_CASE("what was written after its use is found", "[autograd]") {
  OperatorsUnderTest dut;
  Tensor x = dut.tensor({2}, {1, 2}, DPPolicy::on_one_pe(), DType::f32, "x").requires_grad_();
  Tensor w = dut.leaf({2}, 2);
  SECTION("by copy_") {
    const Tensor y = sum(w * x);
    x.copy_(RuntimeContext::tensor({3, 4}, {2}));
    CHECK_THAT(misuse([&] { y.backward(); }),
               Says("KB-A005",
                    "one of the variables needed for gradient computation has been modified by an "
                    "inplace operation",
                    "'x'", "clone()"));
  }
  SECTION("through a view") {
    const Tensor y = sum(w * x);
    reshape(x, {1, 2}).detach().copy_(RuntimeContext::tensor({3, 4}, {1, 2}));
    CHECK_THAT(misuse([&] { y.backward(); }), Says("KB-A005"));
  }
  SECTION("by a kernel of the user's") {
    const Tensor y = sum(w * x);
    const auto negate = [](tl::Context& tl, tl::Pointer p) {
      tl.store(p, -tl.load(p, {2}, DType::f32));
    };
    dut.torch.launch("negate", negate, x);
    CHECK_THAT(misuse([&] { y.backward(); }), Says("KB-A005"));
  }
  SECTION("an operator's own result") {
    Tensor y = relu(w);
    y.detach().copy_(RuntimeContext::tensor({3, 4}, {2}));
    CHECK_THAT(misuse([&] { sum(y).backward(); }), Says("KB-A005"));
  }
  SECTION("but not before its use, nor what no gradient needs") {
    x.copy_(RuntimeContext::tensor({3, 4}, {2}));
    const Tensor y = sum(w * x + x);
    const Tensor z = sum(x + w);
    y.backward();
    CHECK(w.grad().to_vector() == Floats{3, 4});
    x.copy_(RuntimeContext::tensor({5, 6}, {2}));
    z.backward();
  }
}

TEST_CASE("operators run backward in the reverse order of the program", "[autograd]") {
  OperatorsUnderTest dut;
  std::string order;
  const auto step = [&](char name, const std::vector<Tensor>& inputs) {
    Tensor sum_of_inputs = inputs.front().detach();
    return record(std::string(1, name), sum_of_inputs, inputs,
                  [&order, name, count = inputs.size()](const Tensor& dy) {
                    order += name;
                    return std::vector<Tensor>(count, dy);
                  });
  };
  const Tensor x = dut.leaf({}, 1);
  const Tensor a = step('a', {x});
  const Tensor b = step('b', {a});
  const Tensor c = step('c', {x});
  const Tensor d = step('d', {b, a});
  const Tensor e = step('e', {c, d});
  step('u', {d});  // leads nowhere
  const Tensor f = step('f', {a, e});
  f.backward();
  CHECK(order == "fedcba");
  CHECK(x.grad().item() == 4);  // f-a, f-e-c, f-e-d-b-a, f-e-d-a
}

TEST_CASE("an operator may have inputs without gradients", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2}, 1);
  const Tensor y =
      record("f", x.detach(), {Tensor(), x, dut.tensor({2}, {1, 2})}, [](const Tensor& dy) {
        return std::vector{Tensor(), dy, dy};
      });
  sum(y).backward();
  CHECK(x.grad().to_vector() == Floats{1, 1});
  const Tensor z =
      record("g", x.detach(), {x}, [](const Tensor&) { return std::vector{Tensor()}; });
  sum(z).backward();
  CHECK(x.grad().to_vector() == Floats{1, 1});
}

TEST_CASE("an operator that returns its input returns a view of it", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2}, 1);
  const Tensor y =
      record("identity", x, {x}, [](const Tensor& dy) { return std::vector{dy + dy}; });
  CHECK(x.is_leaf());
  CHECK_FALSE(y.is_leaf());
  sum(y).backward();
  CHECK(x.grad().to_vector() == Floats{2, 2});
}

TEST_CASE("gradients that an operator may not return are refused", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2}, 1);
  const auto error_with = [&](const autograd::Backward& backward) {
    const Tensor y = record("f", x.detach(), {x}, backward);
    const Tensor dy = dut.tensor({2}, {1, 1});
    return misuse([&] { y.backward(dy); });
  };
  CHECK_THAT(
      error_with([&](const Tensor&) { return std::vector<Tensor>(2); }),
      Says("KB-A006", "Function f returned an incorrect number of gradients (expected 1, got 2)"));
  CHECK_THAT(error_with([&](const Tensor& dy) {
               return std::vector{reshape(dy, {1, 2})};
             }),
             Says("KB-A006", "Function f returned an invalid gradient at index 0 - got"));
  CHECK_THAT(error_with([&](const Tensor&) { return std::vector{dut.leaf({2}, 1, on_pes({}))}; }),
             Says("KB-A006"));
  CHECK_THAT(error_with([&](const Tensor& dy) {
               Tensor(dy).copy_(RuntimeContext::tensor({5, 5}, {2}));
               return std::vector{dy};
             }),
             Says("KB-A007", "f", "autograd::writable(gradient)"));
  CHECK(error_with([&](const Tensor& dy) {
          return std::vector{autograd::writable(dy).copy_(RuntimeContext::tensor({5, 5}, {2}))};
        }) == "no error");
  CHECK(x.grad().to_vector() == Floats{5, 5});
}

TEST_CASE("a sum over holders and a whole gradient do not add up", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({2, 2}, 1, on_pes(Shard::replicate));
  const Tensor w = dut.leaf({2, 2}, 2, on_pes(Shard::column_wise));
  sum(matmul(x, w)).backward();
  CHECK(x.grad().dp() == on_pes(Shard::partial));
  CHECK_THAT(error_of<DeviceError>([&] { sum(x).backward(); }),
             Says("KB-F003", "a sum that only a collective makes whole"));
}

TEST_CASE("a gradient that is a sum over holders flows on through what is linear", "[autograd]") {
  OperatorsUnderTest dut;
  const auto gradients = [&](const DPPolicy& whole, const DPPolicy& columns) {
    const Tensor x = dut.leaf({4, 6}, 1, whole);
    const Tensor v = dut.leaf({6}, 2, whole);
    const Tensor w = dut.leaf({6, 4}, 3, columns);
    Tensor y = transpose(relu(x * v + v) - x, 0, 1);
    y = reshape(transpose(cat({narrow(y, 0, 3, 3), narrow(y, 0, 0, 3)}), 0, 1), {4, 6});
    sum(matmul(2 * clone(y), w)).backward();
    CHECK(x.grad().dp().pe == (whole.num_pes == 1 ? Shard::replicate : Shard::partial));
    return std::tuple(x.grad().to_vector(), v.grad().to_vector(), w.grad().to_vector());
  };
  CHECK(gradients(on_pes(Shard::replicate), on_pes(Shard::column_wise)) ==
        gradients(DPPolicy::on_one_pe(), DPPolicy::on_one_pe()));
}

TEST_CASE("what a pass needs no more is freed on the way", "[autograd]") {
  OperatorsUnderTest dut;
  Tensor x = dut.leaf({1000}, 1);
  const auto in_use = [&] { return simulation_of(dut.torch).allocator(0).allocated(); };
  const Bytes before = in_use();
  {
    const Tensor y = sum(relu(relu(x) * relu(x)));
    CHECK(in_use() > before + 3 * 4000);
    y.backward();
    x.zero_grad();
    dut.torch.ahbm.synchronize();  // queued kernels keep what they use
    CHECK(in_use() < before + 4000);
  }
  CHECK(in_use() == before);
}

TEST_CASE("a graph that nobody uses is freed", "[autograd]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({1000}, 1);
  const auto in_use = [&] { return simulation_of(dut.torch).allocator(0).allocated(); };
  const Bytes before = in_use();
  relu(x * relu(x));
  dut.torch.ahbm.synchronize();
  CHECK(in_use() == before);
}

TEST_CASE("a long graph ends on a rank's small stack", "[autograd]") {
  OperatorsUnderTest dut;
  constexpr int kNodes = 100'000;
  run_ranks(dut.torch, 1, [&](int) {
    const Tensor x = dut.leaf({}, 1);
    const auto chain = [&] {
      Tensor y = x;
      for (int i = 0; i < kNodes; ++i) {
        y = record("step", y.detach(), {y},
                   [kept = y](const Tensor& dy) { return std::vector{dy}; });
      }
      return y;
    };
    chain();  // destroyed as a whole
    chain().backward();
    CHECK(x.grad().item() == 1);
  });
}

TEST_CASE("the same program has the same gradients and times twice", "[autograd]") {
  const auto run = [] {
    OperatorsUnderTest dut;
    const Tensor x = dut.leaf({3, 4}, 1, on_pes(Shard::row_wise));
    const Tensor w = dut.leaf({4, 5}, 2, on_pes(Shard::replicate));
    sum(relu(matmul(x, w))).backward();
    return std::tuple(x.grad().to_vector(), w.grad().to_vector(), dut.torch.engine().now(),
                      dut.torch.engine().fingerprint());
  };
  CHECK(run() == run());
}

}  // namespace
}  // namespace kernbench::test::autograd_test
