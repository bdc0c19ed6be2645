// Tests a layer of experts beside a dense one, and its load beside checkpoint().

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "test/parallel/expert_parallel_world.h"

namespace kernbench::test::expert_parallel_layer_test {
namespace {

namespace F = nn::functional;

constexpr std::int64_t kTokens = 12;
constexpr std::int64_t kDim = 8;
constexpr std::int64_t kExperts = 4;

moe::MoEOptions layer_options(const moe::RouterOptions& router) {
  return {.dim = kDim,
          .hidden_dim = 6,
          .num_experts = kExperts,
          .num_shared_experts = 2,
          .router = router};
}

// Parameters that depend on their names alone.
void set_by_names(const nn::MoE& layer) {
  for (const auto& item : layer->named_parameters()) {
    std::int64_t seed = 5;
    for (const char letter : item.key()) seed = (31 * seed + letter) % 97;
    const Tensor parameter = item.value().detach();
    const Shape& shape = parameter.shape();
    parameter.copy_(RuntimeContext::tensor(by_formula(shape, 2 * seed + 1, seed), shape));
  }
}

// 1 where an expert has one of a token's top_k logits, of equal ones the first.
Floats mask_of(const Floats& logits, std::int64_t top_k) {
  Floats mask(logits.size());
  for (std::size_t first = 0; first < logits.size(); first += kExperts) {
    std::vector<std::size_t> experts(kExperts);
    std::iota(experts.begin(), experts.end(), first);
    std::ranges::stable_sort(experts, std::greater(), [&](std::size_t e) { return logits[e]; });
    for (std::int64_t i = 0; i < top_k; ++i) mask[experts[static_cast<std::size_t>(i)]] = 1;
  }
  return mask;
}

Tensor compute_expert(const Tensor& x, const nn::MoE& layer, const std::string& name) {
  const auto parameters = layer->named_parameters();
  const Tensor up = F::linear(x, parameters[name + ".w1"]);
  return F::linear(up * up.sigmoid() * F::linear(x, parameters[name + ".w3"]),
                   parameters[name + ".w2"]);
}

// All experts compute all tokens, times weights that are 0 where they are not chosen.
Tensor compute_dense(DataParallelWorld& world, const Tensor& x, const nn::MoE& layer,
                     const moe::RouterOptions& how) {
  const Tensor logits = F::linear(x, layer->named_parameters()["router.weight"]);
  const Tensor mask = world.tensor(mask_of(logits.to_vector(), how.top_k), logits.shape());
  const bool is_softmax = how.score_func == moe::ScoreFunc::softmax;
  const Tensor chosen = (is_softmax ? exp(logits) : logits.sigmoid()) * mask;
  const Tensor weights = chosen / sum(chosen, {1}, true) * how.route_scale;
  Tensor y = compute_expert(x, layer, "shared_experts");
  for (std::int64_t e = 0; e < kExperts; ++e) {
    y = y + compute_expert(x, layer, "experts." + std::to_string(e)) * narrow(weights, 1, e, 1);
  }
  return y;
}

// The output, "x" for its gradient, and the parameters' gradients, over all ranks.
using Results = std::map<std::string, std::vector<double>>;

void add(Results& to, const std::string& name, std::int64_t first, std::size_t size,
         const Floats& part) {
  std::vector<double>& all = to[name];
  all.resize(size);
  for (std::size_t i = 0; i < part.size(); ++i) {
    all[static_cast<std::size_t>(first) + i] += static_cast<double>(part[i]);
  }
}

Results compute(int ranks, const moe::RouterOptions& router, bool is_dense) {
  const Shape all{kTokens, kDim};
  const Floats x_of_all = by_formula(all, 31, 9);
  const Floats dy_of_all = by_formula(all, 13, 6);
  Results results;
  DataParallelWorld world(ranks);
  world.spawn([&](int rank) {
    const nn::MoE layer(world.torch, layer_options(router), kOnOnePe);
    set_by_names(layer);
    const std::int64_t count = kTokens / ranks;
    const auto rows = [&](const Floats& whole) {
      return world.tensor(part_of(whole, rank * count, count, kDim), {count, kDim});
    };
    const Tensor x = rows(x_of_all);
    x.requires_grad_();
    const Tensor y = is_dense ? compute_dense(world, x, layer, router) : layer(x);
    y.backward(rows(dy_of_all));
    const auto size = static_cast<std::size_t>(all.numel());
    add(results, "y", rank * count * kDim, size, y.to_vector());
    add(results, "x", rank * count * kDim, size, x.grad().to_vector());
    for (const auto& item : layer->named_parameters()) {
      const Floats gradient = item.value().grad().to_vector();
      add(results, item.key(), 0, gradient.size(), gradient);
    }
  });
  return results;
}

// Sums of about a hundred terms in f32 differ by 1e-5 of the largest at most.
void check_near(const Results& own, const Results& wanted) {
  REQUIRE(own.size() == wanted.size());
  for (const auto& [name, elements] : wanted) {
    CAPTURE(name);
    const std::vector<double>& found = own.at(name);
    REQUIRE(found.size() == elements.size());
    double largest = 0;
    for (const double element : elements) largest = std::max(largest, std::abs(element));
    REQUIRE(largest > 0);
    std::int64_t apart = 0;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      apart += std::abs(found[i] - elements[i]) <= 1e-5 * largest ? 0 : 1;
    }
    CHECK(apart == 0);
  }
}

TEST_CASE("gates, shared experts, sigmoids and a scale are those of a dense layer",
          "[expert_parallel]") {
  for (const moe::ScoreFunc function : {moe::ScoreFunc::softmax, moe::ScoreFunc::sigmoid}) {
    const moe::RouterOptions router{
        .top_k = 2, .score_func = function, .route_norm = true, .route_scale = 2.5};
    const Results wanted = compute(1, router, true);
    for (const int ranks : {1, 2, 4}) {
      CAPTURE(ranks, static_cast<int>(function));
      check_near(compute(ranks, router, false), wanted);
    }
  }
}

TEST_CASE("of equal logits the first experts are chosen, and sigmoids of 0 weigh nothing",
          "[expert_parallel]") {
  DataParallelWorld world(1);
  world.spawn([&](int) {
    const moe::Routed equal =
        moe::route(world.torch.zeros({2, 4}, kOnOnePe), {.top_k = 2, .route_norm = true});
    CHECK(equal.topk_idx.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 0, 1});
    CHECK(equal.topk_weights.to_vector() == Floats(4, 0.5F));
    const moe::Routed none =
        moe::route(world.torch.full({2, 4}, -1000, kOnOnePe),
                   {.top_k = 2, .score_func = moe::ScoreFunc::sigmoid, .route_norm = true});
    CHECK(none.topk_weights.to_vector() == Floats(4));
  });
}

TEST_CASE("a weight that is no number is the largest", "[expert_parallel]") {
  DataParallelWorld world(1);
  world.spawn([&](int) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const moe::Dispatched sent =
        moe::dispatch(world.tensor({1, 2, 3, 4, 5}, {5, 1}),
                      RuntimeContext::tensor(std::vector<std::int64_t>(5), {5, 1}),
                      world.tensor({1, nan, 3, nan, 2}, {5, 1}), 1, {.capacity_factor = 0.6});
    CHECK(sent.recv_x.to_vector() == Floats{2, 3, 4});
  });
}

// The gradients of each rank after three steps, whose hot rank is another one each.
std::vector<Floats> gradients_of_steps(bool is_checkpointed) {
  std::vector<Floats> gradients;
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    moe::MoEOptions options = layer_options({.top_k = 2});
    options.load = moe::RoutingLoad::parse("W6");
    const nn::MoE layer(world.torch, options, kOnOnePe);
    set_by_names(layer);
    const Shape shape{kTokens, kDim};
    const Tensor x = world.tensor(by_formula(shape, 31, 9 + rank), shape);
    x.requires_grad_();
    for (std::int64_t step = 0; step < 3; ++step) {
      layer->set_step(step);
      const auto call = [&](const std::vector<Tensor>& inputs) { return layer(inputs[0]); };
      const Tensor y = is_checkpointed ? nn::utils::checkpoint(call, {x}) : call({x});
      y.backward(world.tensor(by_formula(shape, 13, 6), shape));
    }
    world.torch.distributed.barrier();
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == rank) {
        gradients.push_back(x.grad().to_vector());
        for (const Tensor& each : layer->parameters()) gradients.push_back(each.grad().to_vector());
      }
      world.torch.distributed.barrier();
    }
  });
  return gradients;
}

TEST_CASE("checkpoint() repeats the step of a load: the gradients are the same",
          "[expert_parallel]") {
  const std::vector<Floats> wanted = gradients_of_steps(false);
  REQUIRE(wanted.front() != Floats(wanted.front().size()));
  CHECK(gradients_of_steps(true) == wanted);
}

TEST_CASE("experts that are given stay without values", "[expert_parallel]") {
  DataParallelWorld world(2, "ahbm", {.data = false});
  world.spawn([&](int rank) {
    moe::MoEOptions options = layer_options({.top_k = 1});
    options.dispatch.experts = std::vector<std::int64_t>(kTokens);
    const nn::MoE layer(world.torch, options, kOnOnePe);
    layer(world.torch.zeros({kTokens, kDim}, kOnOnePe));
    const std::int64_t rows = rank == 0 ? kTokens : 0;
    CHECK(layer->last_sizes().received_rows == std::vector<std::int64_t>{rows, rows});
  });
}

}  // namespace
}  // namespace kernbench::test::expert_parallel_layer_test
