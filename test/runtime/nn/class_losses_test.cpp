// Losses of classes in further dimensions, with weights and with probabilities, and refusals.  The
// figures are those of torch 1.13.1.

#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::class_losses_test {
namespace {

namespace F = nn::functional;
using F::Reduction;

void check_near(const Tensor& x, const Floats& wanted) {
  const Floats is = x.to_vector();
  REQUIRE(is.size() == wanted.size());
  for (std::size_t i = 0; i < is.size(); ++i) {
    CHECK(std::abs(is[i] - wanted[i]) <= 2e-6F * std::max(1.0F, std::abs(wanted[i])));
  }
}

// Logits [2, 3, 2] and their targets [2, 2].
struct Sample {
  explicit Sample(const DPPolicy& placed = DPPolicy::on_one_pe()) : dp(placed) {}

  OperatorsUnderTest dut;
  DPPolicy dp;
  Tensor x = dut.tensor({2, 3, 2}, {1, -2, 0, 3, 2, 1, 0, 1, 1, 1, -1, 2}, dp).requires_grad_();
  Tensor target = dut.tensor({2, 2}, {2, 0, 1, -100}, dp, DType::i64);
  Tensor weight = dut.tensor(
      {3}, {0.5F, 2, 1}, DPPolicy{Shard::replicate, Shard::replicate, dp.num_cubes, dp.num_pes});

  void check(const F::CrossEntropyOptions& options, float loss, const Floats& slopes) {
    x.zero_grad();
    const Tensor y = F::cross_entropy(x, target, options);
    check_near(y, {loss});
    y.backward();
    check_near(x.grad(), slopes);
  }
};

TEST_CASE("classes of further dimensions are rows too", "[cross_entropy]") {
  Sample of(GENERATE(DPPolicy::on_one_pe(), on_pes(kRow)));
  of.check({}, 1.98268592F,
           {0.0815761685F, -0.331366748F, 0.0300101936F, 0.291866869F, -0.111586355F, 0.03949989F,
            0.0815761685F, 0, -0.111586355F, 0, 0.0300101936F, 0});
  of.check({.label_smoothing = 0.25, .reduction = Reduction::sum}, 5.78139114F,
           {0.161395162F, -0.827433586F, 0.00669724494F, 0.792267203F, -0.16809237F, 0.0351663232F,
            0.161395147F, 0, -0.168092415F, 0, 0.00669723935F, 0});
  const Tensor each = F::cross_entropy(of.x, of.target, {.reduction = Reduction::none});
  CHECK(each.shape() == Shape{2, 2});
  CHECK(each.at({1, 1}) == 0);
}

TEST_CASE("classes have weights", "[cross_entropy]") {
  Sample of(GENERATE(DPPolicy::on_one_pe(), on_pes(kRow)));
  of.check({.weight = of.weight}, 1.08264017F,
           {0.0699224323F, -0.142014325F, 0.0257230233F, 0.125085801F, -0.0956454501F,
            0.0169285238F, 0.139844865F, 0, -0.1912909F, 0, 0.0514460467F, 0});
  of.check({.weight = of.weight, .label_smoothing = 0.25}, 1.16479445F,
           {0.0609310977F, -0.117923856F, -0.0208242331F, 0.119162016F, -0.0401068665F,
            -0.00123815879F, 0.113372922F, 0, -0.135650456F, 0, 0.0222775601F, 0});
}

TEST_CASE("a weighted sum is nll_loss's, and modules take the weight", "[cross_entropy]") {
  Sample of;
  const Tensor logarithms = of.x.log_softmax(1);
  check_near(F::nll_loss(logarithms, of.target, Reduction::sum, -100, of.weight), {3.7892406F});
  check_near(nn::NLLLoss(Reduction::mean, -100, of.weight)(logarithms, of.target), {1.08264017F});
  check_near(nn::CrossEntropyLoss({.weight = of.weight})(of.x, of.target), {1.08264017F});
  CHECK_THAT(error([&] { F::cross_entropy(of.x, of.target, {.weight = of.weight[0]}); }),
             Says("KB-F001",
                  "weight tensor should be defined either for all 3 classes or no classes but got "
                  "weight tensor of shape: []"));
}

TEST_CASE("targets may be probabilities of classes", "[cross_entropy]") {
  Sample of;
  const Tensor p =
      of.dut.tensor({2, 3, 2}, {0.5F, 0, 0.25F, 1, 0.25F, 0, 1, 0.25F, 0, 0.5F, 0, 0.25F})
          .requires_grad_();
  const Tensor mean = F::cross_entropy(of.x, p);
  check_near(mean, {1.06237543F});
  mean.backward();
  check_near(of.x.grad(), {-0.0638178736F, 0.00147493731F, -0.0399923548F, -0.0310998559F,
                           0.103810236F, 0.0296249166F, -0.188817874F, -0.00951461494F,
                           0.166310236F, -0.0720146149F, 0.0225076452F, 0.081529215F});
  check_near(p.grad(), (-of.x.log_softmax(1) / 4).to_vector());
  check_near(
      F::cross_entropy(
          of.x, p, {.weight = of.weight, .label_smoothing = 0.25, .reduction = Reduction::none}),
      {1.73708963F, 0.61301446F, 0.855070591F, 1.78159881F});
  CHECK_THAT(error([&] { F::cross_entropy(of.x, p.to(DType::i64)); }),
             Says("KB-F002",
                  "Expected floating point type for target with class probabilities, got Long"));
  CHECK_THAT(error([&] { F::cross_entropy(of.x, p, {.ignore_index = 1}); }),
             Says("KB-F001", "ignore_index is not supported for floating point target"));
}

TEST_CASE("one sample without a batch has one target", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({3}, {1, 0, 2});
  const Tensor target = dut.tensor({}, {2}, DPPolicy::on_one_pe(), DType::i64);
  const Tensor y = F::cross_entropy(x, target);
  CHECK(y.shape() == Shape{});
  check_near(y, {0.407605946F});
  check_near(F::nll_loss(x.log_softmax(0), target), {0.407605946F});
}

TEST_CASE("targets of another shape are refused in torch's words", "[cross_entropy]") {
  OperatorsUnderTest dut;
  const auto says = [&](const Shape& of_x, const Shape& of_target, const char* text) {
    const Tensor target = dut.torch.zeros(of_target, {.dtype = DType::i64});
    for (const bool is_nll : {false, true}) {
      CHECK_THAT(error([&] {
                   const Tensor x = dut.torch.zeros(of_x);
                   is_nll ? F::nll_loss(x, target) : F::cross_entropy(x, target);
                 }),
                 Says("KB-F001", text));
    }
  };
  says({3, 4}, {2}, "Expected input batch_size (3) to match target batch_size (2).");
  says({3, 4}, {3, 1}, "0D or 1D target tensor expected, multi-target not supported");
  says({4}, {1}, "size mismatch (got input: [4], target: [1])");
  says({2, 4, 3}, {2, 4}, "Expected target size [2, 3], got [2, 4]");
}

TEST_CASE("positive classes have weights", "[loss]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({3}, {0, 1, -2}).requires_grad_();
  const Tensor t = dut.tensor({3}, {1, 0, 0.5F});
  const Tensor p = dut.tensor({3}, {2, 3, 0.5F});
  const Floats wanted{1.38629436F, 1.31326163F, 0.595196009F};
  const nn::BCEWithLogitsLoss criterion({.reduction = Reduction::none, .pos_weight = p});
  const Tensor each = criterion(x, t);
  check_near(each, wanted);
  each.sum().backward();  // (1 - t) sigmoid(x) - p t sigmoid(-x)
  check_near(x.grad(), {-1, 0.731058578F, 0.0596014603F - 0.220199274F});
  check_near(F::binary_cross_entropy_with_logits(x, t, {.weight = p}),
             {(2 * 0.693147181F + 3 * wanted[1] + 0.5F * 1.12692801F) / 3});
}

TEST_CASE("what is no probability is refused where the host knows it", "[loss]") {
  OperatorsUnderTest dut;
  const Tensor t = dut.tensor({2}, {0, 1});
  for (const float outside : {-0.5F, 1.5F, NAN}) {
    CHECK_THAT(error([&] {
                 F::binary_cross_entropy(dut.tensor({2}, {0, outside}), t);
               }),
               Says("KB-F001", "all elements of input should be between 0 and 1"));
  }
  CHECK(F::binary_cross_entropy(t, t).item() == 0);
  CHECK(nn::BCELoss()(t, t).item() == 0);
}

}  // namespace
}  // namespace kernbench::test::class_losses_test
