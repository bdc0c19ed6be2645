// Tests what checkpoints keep: by operator, by segment, and as many layers as fit into a budget.

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "runtime/autograd/checkpoint.h"
#include "runtime/nn/layers.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::checkpoint_memory_test {
namespace {

using nn::utils::checkpoint;
using nn::utils::checkpoint_sequential;
using nn::utils::choose_kept_layers;
using nn::utils::LayerActivations;
namespace F = nn::functional;

constexpr Bytes kVector = 4096;
const DPPolicy kOnOnePe = DPPolicy::on_one_pe();

// A layer keeps what each of its three operators is given: its input and two results.
Tensor three_gelus(const Tensor& x) {
  return F::gelu(F::gelu(F::gelu(x)));
}
constexpr LayerActivations kThreeGelus{.all = 3 * kVector, .input = kVector};

// The most that a step's layers keep at a time: in the backward of each layer its own activations,
// whether it has kept them or computes them again, and what the layers before it keep.
Bytes peak_of(const std::vector<bool>& kept, const LayerActivations& of_each) {
  Bytes most = 0;
  Bytes before = 0;
  for (const bool keeps : kept) {
    most = std::max(most, before + of_each.all);
    before += keeps ? of_each.all : of_each.input;
  }
  return most;
}

// By peak: the most layers that a choice with this peak keeps.
std::map<Bytes, std::int64_t> most_kept_by_peak(std::int64_t layers,
                                                const LayerActivations& of_each) {
  std::map<Bytes, std::int64_t> most;
  for (unsigned subset = 0; subset < (1U << layers); ++subset) {
    std::vector<bool> kept;
    for (std::int64_t i = 0; i < layers; ++i) kept.push_back((subset >> i & 1U) != 0);
    std::int64_t& count = most[peak_of(kept, of_each)];
    count = std::max<std::int64_t>(count, std::ranges::count(kept, true));
  }
  return most;
}

TEST_CASE("no choice of layers keeps more within a budget: all subsets of up to 12 layers",
          "[nn][checkpoint][memory]") {
  const auto layers = GENERATE(range(std::int64_t{1}, std::int64_t{13}));
  for (const LayerActivations of_each : {LayerActivations{7, 1}, LayerActivations{5, 2},
                                         LayerActivations{4, 4}, LayerActivations{34, 2}}) {
    const auto most_by_peak = most_kept_by_peak(layers, of_each);
    const Bytes all = layers * of_each.all;
    for (Bytes budget = 0; budget <= all + 1; ++budget) {
      std::int64_t most = -1;
      for (const auto& [peak, count] : most_by_peak) {
        if (peak <= budget) most = std::max(most, count);
      }
      CAPTURE(layers, of_each.all, of_each.input, budget);
      if (most < 0) {
        REQUIRE_THAT(
            error_of<CollectiveError>([&] { choose_kept_layers(layers, of_each, budget); }),
            Says("KB-A033", std::to_string(most_by_peak.begin()->first - budget) + " B more"));
        continue;
      }
      const std::vector<bool> kept = choose_kept_layers(layers, of_each, budget);
      REQUIRE(std::ranges::count(kept, true) == most);
      REQUIRE(std::ssize(kept) == layers);
      REQUIRE(peak_of(kept, of_each) <= budget);
      REQUIRE(std::ranges::is_sorted(kept));  // the last ones
    }
  }
}

TEST_CASE("a choice among no layers, or of negative bytes, is refused",
          "[nn][checkpoint][memory]") {
  const auto refusal = [](std::int64_t layers, const LayerActivations& of_each, Bytes budget) {
    return error_of<CollectiveError>([&] { choose_kept_layers(layers, of_each, budget); });
  };
  CHECK(refusal(1, {3, 1}, 3) == "no error");
  CHECK_THAT(refusal(0, {3, 1}, 9), Says("KB-A033", "0 layers"));
  CHECK_THAT(refusal(-2, {3, 1}, 9), Says("KB-A033", "-2 layers"));
  CHECK_THAT(refusal(2, {3, -1}, 9), Says("KB-A033", "inputs of -1 B"));
  CHECK_THAT(refusal(2, {3, 4}, 9), Says("KB-A033", "of 3 B, their inputs of 4 B"));
  CHECK_THAT(refusal(2, {0, 0}, -1), Says("KB-A033", "within -1 B"));
}

TEST_CASE("what a layer keeps is measured, without a draw of random numbers",
          "[nn][checkpoint][memory]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.zeros({1024}, {.dp = kOnOnePe});
  const LayerActivations measured = nn::utils::measure_activations(three_gelus, x);
  CHECK(measured.all == kThreeGelus.all);
  CHECK(measured.input == kThreeGelus.input);
  const auto draw = [&](bool measures) {
    dut.torch.manual_seed(3);
    if (measures) {
      nn::utils::measure_activations([](const Tensor& in) { return F::dropout(in, 0.5); }, x);
    }
    return dut.torch.rand({1}).item();
  };
  CHECK(draw(true) == draw(false));
}

// Between these layers and the loss there is nothing, and layers have no parameters, so beside the
// activations a step has as much at its peak whichever layers keep theirs: the last layer's output
// and gradients.
TEST_CASE("the peak of a step is the one that the choice of layers says, to the byte",
          "[nn][checkpoint][memory]") {
  OperatorsUnderTest dut;
  const auto layers = GENERATE(1, 2, 5);
  const Tensor x = dut.tensor({1024}, Floats(1024, 0.5F), kOnOnePe, DType::f32, "x");
  x.requires_grad_();
  const auto step = [&](const std::vector<bool>& kept) {
    Tensor(x).zero_grad();
    dut.torch.ahbm.synchronize();
    const MemoryByKind before = dut.torch.ahbm.memory_stats().current;
    dut.torch.ahbm.reset_peak_memory_stats();
    {
      Tensor y = x * 1.0;
      for (const bool keeps : kept) {
        y = keeps ? three_gelus(y)
                  : checkpoint([](const auto& in) { return three_gelus(in.front()); }, {y});
      }
      y.sum().backward();
    }
    dut.torch.ahbm.synchronize();
    MemoryByKind peak = dut.torch.ahbm.memory_stats().peak;
    for (const MemoryKind kind : kAllMemoryKinds) peak[kind] -= before[kind];
    return std::pair(peak, x.grad().to_vector());
  };
  const auto [all_kept, gradients] =
      step(std::vector<bool>(static_cast<std::size_t>(layers), true));
  CHECK(all_kept[MemoryKind::activation] == layers * kThreeGelus.all);
  for (Bytes budget = kThreeGelus.all + kThreeGelus.input * (layers - 1);
       budget <= kThreeGelus.all * layers; budget += kVector) {
    const std::vector<bool> kept = choose_kept_layers(layers, kThreeGelus, budget);
    const auto [peak, same] = step(kept);
    const auto count = std::ranges::count(kept, true);
    CAPTURE(layers, budget, count);
    CHECK(peak[MemoryKind::activation] ==
          count * kThreeGelus.all + (layers - count) * kThreeGelus.input);
    CHECK(peak[MemoryKind::activation] <= budget);
    CHECK(peak.sum() - peak[MemoryKind::activation] ==
          all_kept.sum() - all_kept[MemoryKind::activation]);
    CHECK(same == gradients);
  }
}

TEST_CASE("checkpoint_sequential keeps the input of each segment, and all of the last",
          "[nn][checkpoint][memory]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({1024}, Floats(1024, 0.5F)).requires_grad_();
  const Bytes before = dut.torch.ahbm.memory_stats().current[MemoryKind::activation];
  const std::vector<std::function<Tensor(const Tensor&)>> functions(7, three_gelus);
  const auto segments = GENERATE(1, 2, 3, 7);
  const std::int64_t length = 7 / segments;
  const std::int64_t last = 7 - length * (segments - 1);
  {
    const Tensor y = checkpoint_sequential(functions, segments, x * 1.0);
    dut.torch.ahbm.synchronize();
    CHECK(dut.torch.ahbm.memory_stats().current[MemoryKind::activation] - before ==
          (segments - 1) * kThreeGelus.input + last * kThreeGelus.all);
  }
  CHECK_THAT(error_of<CollectiveError>([&] { checkpoint_sequential(functions, 8, x); }),
             Says("KB-A033", "8 segments of 7 functions"));
  CHECK_THAT(error_of<CollectiveError>([&] { checkpoint_sequential(functions, 0, x); }),
             Says("KB-A033", "0 segments"));
}

// L layers in groups of g, each a checkpoint but the last, keep the inputs of the groups, and in
// the backward of a group all of its layers, of whose activations its input is one.
Bytes peak_in_groups(std::int64_t layers, std::int64_t group, const LayerActivations& of_each) {
  const std::int64_t inputs = (layers + group - 1) / group;
  return inputs * of_each.input + group * of_each.all - of_each.input;
}

TEST_CASE("checkpoints of groups of g of L layers keep ceil(L / g) inputs and g layers",
          "[nn][checkpoint][memory]") {
  OperatorsUnderTest dut;
  const std::int64_t layers = GENERATE(4, 6, 12);
  const Tensor x = dut.tensor({1024}, Floats(1024, 0.5F), kOnOnePe, DType::f32, "x");
  x.requires_grad_();
  std::map<std::int64_t, Bytes> measured;
  std::map<std::int64_t, Bytes> expected;
  for (std::int64_t group = 1; group <= layers; ++group) {
    if (layers % group != 0) continue;
    Tensor(x).zero_grad();
    dut.torch.ahbm.synchronize();
    const Bytes before = dut.torch.ahbm.memory_stats().current[MemoryKind::activation];
    dut.torch.ahbm.reset_peak_memory_stats();
    const std::vector<std::function<Tensor(const Tensor&)>> functions(
        static_cast<std::size_t>(layers), three_gelus);
    checkpoint_sequential(functions, layers / group, x * 1.0).sum().backward();
    dut.torch.ahbm.synchronize();
    measured[group] = dut.torch.ahbm.memory_stats().peak[MemoryKind::activation] - before;
    expected[group] = peak_in_groups(layers, group, kThreeGelus);
  }
  CHECK(measured == expected);
}

TEST_CASE("a selective checkpoint keeps the results of its operators, and computes them once",
          "[nn][checkpoint][memory]") {
  OperatorsUnderTest dut;
  const Bytes copies = GENERATE(1, 2);
  const DPPolicy dp = copies == 1 ? kOnOnePe : on_pes(kR);
  const nn::Linear up(dut.torch, 32, 64, {.dp = dp});
  const nn::Linear down(dut.torch, 64, 32, {.dp = dp});
  const auto block = [&](const std::vector<Tensor>& in) {
    return F::dropout(down(F::gelu(up(in.front()))), 0.5);
  };
  struct Outcome {
    Floats y, dx, dw;
    Bytes kept = 0;
  };
  const auto run = [&](bool is_selective) {
    dut.torch.manual_seed(3);
    up->zero_grad();
    const Tensor x = dut.tensor({32, 32}, sixteenths(1024, 1), dp).requires_grad_();
    const Tensor h = x * 2;
    dut.torch.ahbm.synchronize();
    const Bytes before = dut.torch.ahbm.memory_stats().current[MemoryKind::activation];
    const auto contexts = is_selective ? nn::utils::create_selective_checkpoint_contexts({"addmm"})
                                       : nn::utils::CheckpointContexts();
    const Tensor y = checkpoint(block, {h}, contexts);
    dut.torch.ahbm.synchronize();
    const Bytes kept = dut.torch.ahbm.memory_stats().current[MemoryKind::activation] - before;
    const Time began = dut.torch.engine().now();
    y.sum().backward();
    dut.torch.ahbm.synchronize();
    const Time took = dut.torch.engine().now() - began;
    return std::pair(
        Outcome{y.to_vector(), x.grad().to_vector(), up->weight.grad().to_vector(), kept}, took);
  };
  const auto [whole, time_of_whole] = run(false);
  const auto [selective, time_of_selective] = run(true);
  CHECK(selective.y == whole.y);
  CHECK(selective.dx == whole.dx);
  CHECK(selective.dw == whole.dw);
  CHECK(whole.kept == copies * 32 * 32 * 4);
  CHECK(selective.kept == copies * (32 * 32 + 32 * 64 + 32 * 32) * 4);
  CHECK(time_of_selective < time_of_whole);
}

TEST_CASE("a selective checkpoint refuses what it cannot keep, and what was written since",
          "[nn][checkpoint][memory]") {
  OperatorsUnderTest dut;
  using nn::utils::CheckpointPolicy;
  CHECK_THAT(
      error_of<CollectiveError>([&] { nn::utils::create_selective_checkpoint_contexts({"gelu"}); }),
      Says("KB-A033", "'gelu'", "matmul, addmm"));
  const Tensor w = dut.leaf({4, 4}, 1);
  const auto writes = [&](const std::vector<Tensor>& in) { return mm(in.front(), w).mul_(2.0); };
  std::vector<std::string> asked;
  const auto contexts = nn::utils::create_selective_checkpoint_contexts([&](std::string_view op) {
    asked.emplace_back(op);
    return CheckpointPolicy::PREFER_SAVE;
  });
  const Tensor x = dut.leaf({4, 4}, 2);
  const Tensor y = checkpoint(writes, {x}, contexts).sum();
  CHECK(asked == std::vector<std::string>{"matmul"});
  CHECK_THAT(error_of<CollectiveError>([&] { y.backward(); }),
             Says("KB-A005", "modified by an inplace operation"));
}

TEST_CASE("a selective checkpoint refuses a function that does something else when called again",
          "[nn][checkpoint][memory]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({4, 4}, 1);
  const Tensor w = dut.leaf({4, 4}, 2);
  const Tensor wide = dut.leaf({4, 8}, 3);
  const Tensor bias = dut.leaf({4}, 4);
  using Call = std::function<Tensor(const Tensor&)>;
  const auto refusal = [&](const Call& first, const Call& again) {
    bool is_first = true;
    const auto function = [&](const std::vector<Tensor>& in) {
      return std::exchange(is_first, false) ? first(in.front()) : again(in.front());
    };
    const auto contexts = nn::utils::create_selective_checkpoint_contexts({"matmul", "addmm"});
    const Tensor y = checkpoint(function, {x}, contexts).sum();
    return error_of<CollectiveError>([&] { y.backward(); });
  };
  const Call none = [](const Tensor& in) { return in * 2; };
  const Call once = [&](const Tensor& in) { return mm(in, w); };
  const Call twice = [&](const Tensor& in) { return mm(mm(in, w), w); };
  const Call to_wide = [&](const Tensor& in) { return mm(in, wide); };
  const Call linear = [&](const Tensor& in) { return F::linear(in, w, bias); };
  CHECK(refusal(once, once) == "no error");
  CHECK(refusal(none, none) == "no error");
  CHECK_THAT(refusal(none, once), Says("KB-A034", "A different number of tensors was saved",
                                       "kept result 0 is in the forward that of no operator",
                                       "in the recomputation that of matmul([4, 4]"));
  CHECK_THAT(refusal(once, twice), Says("KB-A034", "kept result 1", "that of no operator, in"));
  CHECK_THAT(refusal(twice, once), Says("KB-A034", "kept result 1", "that of matmul(",
                                        "recomputation that of no operator"));
  CHECK_THAT(refusal(once, linear), Says("KB-A034", "that of matmul(", "that of addmm("));
  CHECK_THAT(refusal(once, to_wide), Says("KB-A034", "[4, 4] f32", "[4, 8] f32"));
}

}  // namespace
}  // namespace kernbench::test::checkpoint_memory_test
