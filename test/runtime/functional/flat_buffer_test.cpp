// Parts of a flat buffer as views: what data parallel training makes of gradients.

#include "runtime/distributed/local_backend.h"
#include "runtime/optim/optimizer.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::flat_buffer_test {
namespace {

// Placements that cut no elements.
std::vector<DPPolicy> whole_placements() {
  return {DPPolicy::on_one_pe(), DPPolicy{}, on_pes(kR), on_pes(kPartial), on_cubes(kPartial)};
}

constexpr std::int64_t kCount = 10;

// Views of a buffer of ten elements: [2, 3] and [4].
struct Views {
  explicit Views(const Tensor& flat)
      : a(flat.narrow(0, 0, 6).view({2, 3})), b(flat.narrow(0, 6, 4)) {}
  Tensor a;
  Tensor b;
};

TEST_CASE("a view of a flat buffer is written through, both ways", "[flat]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  OperatorsUnderTest dut;
  for (const DPPolicy& dp : whole_placements()) {
    CAPTURE(to_string(dp), name_of(dtype));
    const Floats elements = small_integers(kCount, 1);
    const Tensor flat = dut.tensor({kCount}, elements, dp, dtype);
    const Views views(flat);
    CHECK(views.a.to_vector() == Floats(elements.begin(), elements.begin() + 6));
    CHECK(views.b.to_vector() == Floats(elements.begin() + 6, elements.end()));
    views.b.mul_(2);
    Tensor(views.a).copy_(RuntimeContext::tensor({1, 2, 3, 4, 5, 6}, {2, 3}));
    Floats expected{1, 2, 3, 4, 5, 6};
    for (int i = 6; i < kCount; ++i) expected.push_back(2 * elements[static_cast<std::size_t>(i)]);
    CHECK(flat.to_vector() == expected);
    flat.mul_(3);
    CHECK(views.a.to_vector() == Floats{3, 6, 9, 12, 15, 18});
    CHECK(views.a[1].to_vector() == Floats{12, 15, 18});
    views.a[1].zero_();
    CHECK(flat.narrow(0, 2, 3).to_vector() == Floats{9, 0, 0});
  }
}

TEST_CASE("a view of a stretch costs no time and no memory of the device", "[flat]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({1, 4, 3}, small_integers(12, 1), on_pes(kColumn));
  const Time before = dut.torch.engine().now();
  const Tensor middle = x.narrow(1, 1, 2);
  CHECK(dut.torch.engine().now() == before);
  middle.add_(10);
  CHECK(x.to_vector()[3] == middle.to_vector()[0]);
  CHECK(middle.shards()[0].address == x.shards()[0].address + 2 * size_of(DType::f32));
}

TEST_CASE("gradients are added into views that are assigned as grad", "[flat]") {
  OperatorsUnderTest dut;
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), DPPolicy{}}) {
    const Tensor flat = dut.torch.zeros({kCount}, {.dp = dp});
    const Views grads(flat);
    Tensor w = dut.leaf({2, 3}, 1, dp);
    Tensor v = dut.leaf({4}, 2, dp);
    w.mutable_grad() = grads.a;
    v.mutable_grad() = grads.b;
    for (int pass = 1; pass <= 2; ++pass) {
      (sum(w * w) + sum(3 * v)).backward();
      Floats expected = w.to_vector();
      for (float& element : expected) element *= 2.0F * static_cast<float>(pass);
      expected.resize(kCount, 3.0F * static_cast<float>(pass));
      CHECK(flat.to_vector() == expected);
    }
    CHECK(w.grad().storage() == grads.a.storage());
    flat.zero_();
    CHECK(w.grad().to_vector() == Floats(6, 0));
  }
}

TEST_CASE("a grad that does not fit its leaf is refused", "[flat]") {
  OperatorsUnderTest dut;
  Tensor w = dut.leaf({2, 3}, 1);
  w.mutable_grad() = dut.tensor({1, 3}, {0, 0, 0});
  CHECK_THAT(error_of<CollectiveError>([&] { sum(w).backward(); }),
             Says("KB-A006", "assigned grad has data of a different size"));
  w.mutable_grad() = dut.tensor({2, 3}, Floats(6, 0), DPPolicy::on_one_pe(), DType::f16);
  CHECK_THAT(error_of<CollectiveError>([&] { sum(w).backward(); }),
             Says("KB-A006", "assigned grad has data of a different type"));
}

TEST_CASE("optimizers step parameters and gradients that are views", "[flat]") {
  OperatorsUnderTest dut;
  const auto trained = [&](Tensor w, const Tensor& grad) {
    w.requires_grad_();
    if (grad.defined()) w.mutable_grad() = grad;
    optim::AdamW optimizer({w}, optim::AdamWOptions(0.1).weight_decay(0.01));
    for (int step = 0; step < 3; ++step) {
      if (grad.defined())
        grad.zero_();
      else
        w.zero_grad();
      sum(w * w * w).backward();
      optimizer.step();
    }
    return w.detach().to_vector();
  };
  const Floats start = sixteenths(6, 3);
  const Tensor parameters = dut.torch.zeros({kCount}, {.dp = DPPolicy::on_one_pe()});
  const Tensor gradients = dut.torch.zeros({kCount}, {.dp = DPPolicy::on_one_pe()});
  Views views(parameters);
  views.a.copy_(RuntimeContext::tensor(start, {2, 3}));
  const Floats expected = trained(dut.tensor({2, 3}, start), {});
  CHECK(trained(views.a, Views(gradients).a) == expected);
  const Floats all = parameters.to_vector();
  CHECK(Floats(all.begin(), all.begin() + 6) == expected);
  CHECK(Floats(all.begin() + 6, all.end()) == Floats(4, 0));
}

TEST_CASE("a gradient flows through what is written into a part", "[flat]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({6}, 1);
  const Tensor y = dut.leaf({2}, 2);
  const Tensor z = 2 * x;
  z.narrow(0, 1, 2).mul_(y);
  z.narrow(0, 4, 2).zero_();
  sum(z * z).backward();
  const Floats of_x = x.to_vector();
  const Floats of_y = y.to_vector();
  Floats expected;
  for (std::size_t i = 0; i < 6; ++i) {
    const float factor = i == 1 || i == 2 ? of_y[i - 1] : i < 4 ? 1.0F : 0.0F;
    expected.push_back(8 * of_x[i] * factor * factor);
  }
  CHECK(x.grad().to_vector() == expected);
  CHECK(y.grad().to_vector() ==
        Floats{8 * of_x[1] * of_x[1] * of_y[0], 8 * of_x[2] * of_x[2] * of_y[1]});
}

TEST_CASE("a stretch along a cut dimension is refused with what fits", "[flat]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.zeros({kCount}, {.dp = on_pes(kRow)});
  CHECK_THAT(error([&] { (void)x.narrow(0, 0, 4); }),
             Says("KB-F003", "along dimension 0, which is cut", "what always fits is .dp ="));
}

}  // namespace
}  // namespace kernbench::test::flat_buffer_test
