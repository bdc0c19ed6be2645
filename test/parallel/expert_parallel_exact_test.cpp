// Tests that experts on ranks compute, bit by bit, what a dense model does with all experts.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/autograd/split_backward.h"
#include "runtime/functional/grouped_mm.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "test/parallel/expert_parallel_world.h"

namespace kernbench::test::expert_parallel_exact_test {
namespace {

namespace F = nn::functional;

constexpr MixtureSize kSize{.tokens = 24, .dim = 4, .experts = 8, .top_k = 3, .hidden = 6};
constexpr std::int64_t kPairs = kSize.tokens * kSize.top_k;
constexpr std::int64_t kWeights = kSize.hidden * kSize.dim;

Floats whole_numbers(std::int64_t count, std::int64_t k, std::int64_t c) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<float>((i * k + i / 7 + c) % 5 - 2));
  }
  return elements;
}

const Floats kX = whole_numbers(kSize.tokens * kSize.dim, 3, 1);
const Floats kDy = whole_numbers(kSize.tokens * kSize.dim, 2, 4);
const Floats kW1 = whole_numbers(kSize.experts * kWeights, 4, 2);
const Floats kW2 = whole_numbers(kSize.experts * kWeights, 3, 3);
const Floats kTopWeights = whole_numbers(kPairs, 2, 1);

// The experts of all tokens, uneven ones, as ranks of any number see them.
std::vector<std::int64_t> experts_of_tokens() {
  return moe::RoutingLoad::parse("lognormal:1.5")
      .experts({.ranks = 1,
                .num_experts = kSize.experts,
                .top_k = kSize.top_k,
                .tokens = kSize.tokens,
                .seed = 3},
               0);
}

struct Results {
  Floats y = Floats(kSize.tokens * kSize.dim);
  Floats dx = Floats(kSize.tokens * kSize.dim);
  Floats dweights = Floats(kPairs);
  Floats dw1 = Floats(kSize.experts * kWeights);
  Floats dw2 = Floats(kSize.experts * kWeights);

  friend bool operator==(const Results&, const Results&) = default;
  // The text says of each whether it is equal, for reports.
  friend std::string differences(const Results& a, const Results& b) {
    return fmt::format("y {}, dx {}, dweights {}, dw1 {}, dw2 {}", a.y == b.y, a.dx == b.dx,
                       a.dweights == b.dweights, a.dw1 == b.dw1, a.dw2 == b.dw2);
  }
};

void put(Floats& into, std::int64_t first, const Floats& part) {
  std::ranges::copy(part, into.begin() + first);
}

struct ExpertTensors {
  std::vector<Tensor> w1;
  std::vector<Tensor> w2;

  ExpertTensors(RuntimeContext& torch, std::int64_t first, std::int64_t count,
                const TensorOptions& options) {
    for (std::int64_t e = first; e < first + count; ++e) {
      w1.push_back(torch.tensor(part_of(kW1, e, 1, kWeights), {kSize.hidden, kSize.dim}, options));
      w2.push_back(torch.tensor(part_of(kW2, e, 1, kWeights), {kSize.dim, kSize.hidden}, options));
      w1.back().requires_grad_();
      w2.back().requires_grad_();
    }
  }
  void put_gradients(Results& into, std::int64_t first) const {
    for (std::size_t i = 0; i < w1.size(); ++i) {
      const std::int64_t at = (first + static_cast<std::int64_t>(i)) * kWeights;
      put(into.dw1, at, w1[i].grad().to_vector());
      put(into.dw2, at, w2[i].grad().to_vector());
    }
  }
};

// All experts compute all tokens, times a weight that is 0 where they are not chosen.
Results compute_dense() {
  const std::vector<std::int64_t> experts = experts_of_tokens();
  Floats weights(static_cast<std::size_t>(kSize.tokens * kSize.experts));
  const auto place = [&](std::int64_t pair) {
    const std::int64_t expert = experts[static_cast<std::size_t>(pair)];
    return static_cast<std::size_t>(pair / kSize.top_k * kSize.experts + expert);
  };
  for (std::int64_t i = 0; i < kPairs; ++i) {
    weights[place(i)] = kTopWeights[static_cast<std::size_t>(i)];
  }
  Results results;
  DataParallelWorld world(1);
  world.spawn([&](int) {
    const Tensor x = world.tensor(kX, {kSize.tokens, kSize.dim});
    const Tensor of_experts = world.tensor(weights, {kSize.tokens, kSize.experts});
    x.requires_grad_();
    of_experts.requires_grad_();
    const ExpertTensors tensors(world.torch, 0, kSize.experts, kOnOnePe);
    Tensor y;
    for (std::int64_t e = 0; e < kSize.experts; ++e) {
      const auto i = static_cast<std::size_t>(e);
      const Tensor z = F::linear(F::linear(x, tensors.w1[i]).relu(), tensors.w2[i]) *
                       narrow(of_experts, 1, e, 1);
      y = y.defined() ? y + z : z;
    }
    y.backward(world.tensor(kDy, y.shape()));
    results.y = y.to_vector();
    results.dx = x.grad().to_vector();
    const Floats dweights = of_experts.grad().to_vector();
    for (std::int64_t i = 0; i < kPairs; ++i) {
      results.dweights[static_cast<std::size_t>(i)] = dweights[place(i)];
    }
    tensors.put_gradients(results, 0);
  });
  return results;
}

struct Way {
  int ranks = 1;
  UsedPes pes = {};
  std::optional<double> capacity_factor = {};  // one that drops nothing
  bool pad = false;
  bool are_on_device = false;             // the experts of tokens, which the host knows otherwise
  std::vector<std::int64_t> tokens = {};  // of each rank; as many for all if it is empty
  bool is_replicated = false;             // each PE has a copy of everything

  DPPolicy rows() const { return is_replicated ? DPPolicy{} : pes.rows(); }
  TensorOptions weights() const { return is_replicated ? TensorOptions{} : pes.weights(); }

  std::int64_t tokens_of(int rank) const {
    return tokens.empty() ? kSize.tokens / ranks : tokens[static_cast<std::size_t>(rank)];
  }
  std::int64_t first_of(int rank) const {
    std::int64_t first = 0;
    for (int before = 0; before < rank; ++before) first += tokens_of(before);
    return first;
  }
};

Results compute_on_ranks(const Way& way) {
  const std::vector<std::int64_t> all = experts_of_tokens();
  Results results;
  DataParallelWorld world(way.ranks, "ahbm", {}, way.pes.cubes);
  world.spawn([&](int rank) {
    RuntimeContext& torch = world.torch;
    const std::int64_t tokens = way.tokens_of(rank);
    const std::int64_t first = way.first_of(rank);
    const std::int64_t on_rank = kSize.experts / way.ranks;
    const auto rows = [&](const Floats& whole, std::int64_t width) {
      return torch.tensor(part_of(whole, first, tokens, width), {tokens, width},
                          {.dp = way.rows()});
    };
    const Tensor x = rows(kX, kSize.dim);
    const Tensor weights = rows(kTopWeights, kSize.top_k);
    x.requires_grad_();
    weights.requires_grad_();
    const std::vector<std::int64_t> own(all.begin() + first * kSize.top_k,
                                        all.begin() + (first + tokens) * kSize.top_k);
    const Shape pairs{tokens, kSize.top_k};
    const Tensor experts = way.are_on_device ? torch.tensor(own, pairs, {.dp = way.rows()})
                                             : RuntimeContext::tensor(own, pairs);
    const ExpertTensors tensors(torch, rank * on_rank, on_rank, way.weights());
    const moe::Dispatched sent =
        moe::dispatch(x, experts, weights, kSize.experts,
                      {.capacity_factor = way.capacity_factor, .pad_to_capacity = way.pad});
    const auto& sizes = sent.num_recv_tokens_per_expert_list;
    const Tensor up = F::grouped_mm(sent.recv_x, sizes, tensors.w1);
    const Tensor y = moe::combine(F::grouped_mm(up.relu(), sizes, tensors.w2), sent.handle);
    y.backward(rows(kDy, kSize.dim));
    put(results.y, first * kSize.dim, y.to_vector());
    put(results.dx, first * kSize.dim, x.grad().to_vector());
    put(results.dweights, first * kSize.top_k, weights.grad().to_vector());
    tensors.put_gradients(results, rank * on_rank);
  });
  return results;
}

TEST_CASE("dense = ep 1 = ep 2 = ep 4, bit for bit, of whole numbers", "[expert_parallel]") {
  const Results dense = compute_dense();
  // It can fail: something was computed.
  REQUIRE(dense.y != Floats(dense.y.size()));
  REQUIRE(dense.dw1 != Floats(dense.dw1.size()));
  for (const int ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    CHECK(compute_on_ranks({.ranks = ranks}) == dense);
    CHECK(compute_on_ranks({.ranks = ranks, .are_on_device = true}) == dense);
    CHECK(compute_on_ranks({.ranks = ranks, .pes = {2, 2}}) == dense);
    CHECK(compute_on_ranks({.ranks = ranks, .pes = {2, 2}, .is_replicated = true}) == dense);
    const auto all = static_cast<double>(kSize.experts);
    CHECK(compute_on_ranks({.ranks = ranks, .capacity_factor = all, .pad = true}) == dense);
    CHECK(compute_on_ranks({.ranks = ranks, .pes = {2, 2}, .capacity_factor = all, .pad = true}) ==
          dense);
  }
}

TEST_CASE("ranks may have unequal numbers of tokens, or none", "[expert_parallel]") {
  const Results dense = compute_dense();
  for (const UsedPes& pes : {UsedPes{}, UsedPes{2, 2}}) {
    for (const Way& way :
         {Way{.ranks = 2, .tokens = {24, 0}}, Way{.ranks = 4, .tokens = {3, 0, 20, 1}},
          Way{.ranks = 4, .are_on_device = true, .tokens = {0, 0, 1, 23}}}) {
      Way on_pes = way;
      on_pes.pes = pes;
      const Results results = compute_on_ranks(on_pes);
      CAPTURE(pes.cubes, way.tokens, differences(results, dense));
      CHECK(results == dense);
    }
  }
}

// Some groups have no rows, and their weights gradients of zeros.
TEST_CASE("grouped_mm is linear of each group, and so are its gradients", "[expert_parallel]") {
  const std::vector<std::int64_t> sizes = {0, 7, 1, 0, 0, 11, 5, 0};
  for (const UsedPes& pes : {UsedPes{}, UsedPes{2, 2}, UsedPes{1, 2}}) {
    DataParallelWorld world(1, "ahbm", {}, 2);
    world.spawn([&](int) {
      const TensorOptions rows{.dp = pes.rows()};
      const Tensor x = world.torch.tensor(kX, {kSize.tokens, kSize.dim}, rows);
      x.requires_grad_();
      const ExpertTensors grouped(world.torch, 0, kSize.experts, pes.weights());
      const Tensor y = F::grouped_mm(x, sizes, grouped.w1);
      const Floats dy = whole_numbers(y.numel(), 2, 4);
      y.backward(world.torch.tensor(dy, y.shape(), rows));
      std::int64_t first = 0;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        CAPTURE(i, pes.cubes, pes.pes);
        const std::int64_t count = sizes[i];
        if (count == 0) {
          CHECK(grouped.w1[i].grad().to_vector() == Floats(kWeights));
          continue;
        }
        const Tensor part = world.tensor(part_of(kX, first, count, kSize.dim), {count, kSize.dim});
        part.requires_grad_();
        const ExpertTensors alone(world.torch, static_cast<std::int64_t>(i), 1, kOnOnePe);
        const Tensor of_group = F::linear(part, alone.w1[0]);
        of_group.backward(world.tensor(part_of(dy, first, count, kSize.hidden), of_group.shape()));
        CHECK(part_of(y.to_vector(), first, count, kSize.hidden) == of_group.to_vector());
        CHECK(part_of(x.grad().to_vector(), first, count, kSize.dim) == part.grad().to_vector());
        CHECK(grouped.w1[i].grad().to_vector() == alone.w1[0].grad().to_vector());
        first += count;
      }
    });
  }
}

TEST_CASE("a choice of -1 is none", "[expert_parallel]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const Tensor x = world.tensor({1, 2, 3, 4}, {2, 2});
    const std::vector<std::int64_t> experts = {rank == 0 ? 3 : -1, -1, 0, 1};
    const moe::Dispatched sent = moe::dispatch(x, RuntimeContext::tensor(experts, {2, 2}),
                                               world.tensor({2, 2, 2, 4}, {2, 2}), 4);
    const Floats y = moe::combine(sent.recv_x, sent.handle).to_vector();
    CHECK(y == (rank == 0 ? Floats{2, 4, 18, 24} : Floats{0, 0, 18, 24}));
    CHECK(moe::sizes_of(sent.handle).kept == (rank == 0 ? 3 : 2));
    CHECK(sent.recv_topk_idx ==
          (rank == 0 ? std::vector<std::int64_t>{0, 0, 1, 1} : std::vector<std::int64_t>{1}));
  });
}

TEST_CASE("a rank whose tokens have no experts adds nothing, and its gradients are zeros",
          "[expert_parallel]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const Tensor x = world.tensor({1, 2, 3, 4}, {2, 2});
    x.requires_grad_();
    const std::int64_t expert = rank == 0 ? 3 : -1;
    const moe::Dispatched sent =
        moe::dispatch(x, RuntimeContext::tensor(std::vector{expert, expert}, {2, 1}),
                      world.tensor({1, 2}, {2, 1}), 4);
    const Tensor y = moe::combine(sent.recv_x, sent.handle);
    y.backward(world.tensor({1, 1, 1, 1}, {2, 2}));
    CHECK(y.to_vector() == (rank == 0 ? Floats{1, 2, 6, 8} : Floats(4)));
    CHECK(x.grad().to_vector() == (rank == 0 ? Floats{1, 1, 2, 2} : Floats(4)));
  });
}

// The launch of the weights' gradients comes in the second half, as a product's does.
TEST_CASE("a backward pass in two halves leaves grouped_mm's weights to the second",
          "[expert_parallel]") {
  DataParallelWorld world(1);
  world.spawn([&](int) {
    const auto launches = [&] {
      world.torch.ahbm.synchronize();
      return world.torch.engine().results().size();
    };
    const std::vector<std::int64_t> sizes(kSize.experts, kSize.tokens / kSize.experts);
    const Tensor x = world.tensor(kX, {kSize.tokens, kSize.dim});
    x.requires_grad_();
    const ExpertTensors whole(world.torch, 0, kSize.experts, kOnOnePe);
    const Tensor y = F::grouped_mm(x, sizes, whole.w1);
    const Tensor dy = world.tensor(whole_numbers(y.numel(), 2, 4), y.shape());
    y.backward(dy);
    const ExpertTensors halves(world.torch, 0, kSize.experts, kOnOnePe);
    const Tensor again = F::grouped_mm(x, sizes, halves.w1);
    const std::size_t before = launches();
    autograd::SplitBackward split(again, dy, {x});
    const std::size_t between = launches();
    split.run_weights();
    const std::size_t after = launches();
    CHECK(between - before == 1);
    CHECK(after - between == 1);
    CHECK(split.take_input_gradients().front().to_vector() == x.grad().to_vector());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      CHECK(halves.w1[i].grad().to_vector() == whole.w1[i].grad().to_vector());
    }
  });
}

TEST_CASE("a layer without values has a balanced load", "[expert_parallel]") {
  DataParallelWorld world(2, "ahbm", {.data = false});
  world.spawn([&](int) {
    const nn::MoE layer(world.torch,
                        moe::MoEOptions{.dim = 8,
                                        .hidden_dim = 16,
                                        .num_experts = 4,
                                        .num_shared_experts = 1,
                                        .router = {.top_k = 2}},
                        kOnOnePe);
    const Tensor x = world.torch.zeros({3, 4, 8}, kOnOnePe);
    x.requires_grad_();
    const Tensor y = layer(x);
    CHECK(y.shape() == x.shape());
    y.backward(world.torch.zeros_like(y));
    CHECK(layer->last_sizes().received_rows == std::vector<std::int64_t>{12, 12});
  });
}

}  // namespace
}  // namespace kernbench::test::expert_parallel_exact_test
