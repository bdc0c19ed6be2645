// Tests what expert parallelism refuses.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/functional/grouped_mm.h"
#include "test/parallel/expert_parallel_world.h"

namespace kernbench::test::expert_parallel_errors_test {
namespace {

namespace F = nn::functional;

// Runs `use(torch)` on two ranks.
template <class Use>
std::string refusal_on_ranks(const Use& use) {
  DataParallelWorld world(2);
  return world.refusal([&](int) { use(world.torch); });
}

std::string refused_layer(const moe::MoEOptions& options) {
  return refusal_on_ranks([&](RuntimeContext& torch) { nn::MoE(torch, options, kOnOnePe); });
}

struct Call {
  Shape x{4, 8};
  Shape pairs{4, 2};
  std::int64_t num_experts = 4;
  std::int64_t expert = 1;
  moe::DispatchOptions options = {};
};

std::string refused_dispatch(const Call& call) {
  return refusal_on_ranks([&](RuntimeContext& torch) {
    const std::vector<std::int64_t> experts(static_cast<std::size_t>(call.pairs.numel()),
                                            call.expert);
    moe::dispatch(torch.zeros(call.x, kOnOnePe), RuntimeContext::tensor(experts, call.pairs),
                  torch.zeros(call.pairs, kOnOnePe), call.num_experts, call.options);
  });
}

TEST_CASE("experts that ranks do not divide, and too many choices, are refused",
          "[expert_parallel][errors]") {
  const moe::MoEOptions options{.dim = 8, .hidden_dim = 8, .num_experts = 3};
  CHECK_THAT(refused_layer(options), Says("KB-C029",
                                          "Number of experts should be a multiple of expert model "
                                          "parallel_size: 3 experts and 2 ranks"));
  CHECK_THAT(refused_layer({.dim = 8, .num_experts = 4, .router = {.top_k = 5}}),
             Says("KB-C029", "selected index k out of range: top_k is 5, and there are 4 experts"));
  CHECK_THAT(refused_dispatch({.num_experts = 3}), Says("KB-C029", "3 experts and 2 ranks"));
  CHECK_THAT(refused_dispatch({.pairs = {4, 6}}),
             Says("KB-C029", "top_k is 6, and there are 4 experts"));
  CHECK_THAT(refusal_on_ranks([](RuntimeContext& torch) {
               moe::route(torch.zeros({4, 4}, kOnOnePe), {.top_k = 0});
             }),
             Says("KB-C029", "selected index k out of range: top_k is 0"));
}

TEST_CASE("a rank outside of the group is refused", "[expert_parallel][errors]") {
  const auto refused = [](const auto& use) {
    DataParallelWorld world(2);
    return world.refusal([&](int rank) {
      const distributed::ProcessGroup group = world.torch.distributed.new_group(std::vector{0});
      if (rank == 1) use(world.torch, group);
    });
  };
  CHECK_THAT(refused([](RuntimeContext& torch, const distributed::ProcessGroup& group) {
               nn::MoE(torch, moe::MoEOptions{.num_experts = 4, .dispatch = {.group = group}});
             }),
             Says("KB-C029", "MoE: this rank is not in the group"));
  CHECK_THAT(refused([](RuntimeContext& torch, const distributed::ProcessGroup& group) {
               const Tensor x = torch.zeros({1, 2}, kOnOnePe);
               const Tensor experts = RuntimeContext::tensor(std::vector<std::int64_t>{0}, {1, 1});
               moe::dispatch(x, experts, torch.zeros({1, 1}, kOnOnePe), 4, {.group = group});
             }),
             Says("KB-C029", "dispatch: this rank is not in the group"));
}

TEST_CASE("shapes and experts that do not fit are refused", "[expert_parallel][errors]") {
  CHECK_THAT(refused_dispatch({.pairs = {3, 2}}),
             Says("KB-C029", "they are [4, 8], [3, 2] and [3, 2]"));
  CHECK_THAT(refused_dispatch({.expert = 4}),
             Says("KB-C029", "expert 4 of a token; there are 0 to 3, and -1 for none"));
  CHECK_THAT(refused_dispatch({.options = {.experts = std::vector<std::int64_t>{1}}}),
             Says("KB-C029", "1 experts are given; topk_idx [4, 2] has 8"));
}

TEST_CASE("capacities below 1 are refused", "[expert_parallel][errors]") {
  CHECK_THAT(refused_dispatch({.options = {.capacity_factor = 0}}),
             Says("KB-C029",
                  "expert capacity 0: 8 tokens of experts times capacity_factor 0, over "
                  "4 experts, is below 1"));
  CHECK_THAT(refused_dispatch({.options = {.capacity_factor = -1}}), Says("KB-C029", "is below 1"));
  CHECK_THAT(refused_dispatch({.options = {.pad_to_capacity = true}}),
             Says("KB-C029",
                  "moe_expert_capacity_factor must be set to use "
                  "moe_pad_expert_input_to_capacity"));
  CHECK(moe::expert_capacity(4096 * 8, 64, 1.25) == 640);
  CHECK(moe::expert_capacity(100, 1, 1.1) == 110);
  CHECK(moe::expert_capacity(10, 64, 0.1) == 1);
}

TEST_CASE("dispatch refuses tensors that are undefined, on the host, cut by columns or partial",
          "[expert_parallel][errors]") {
  const auto refused = [](bool is_x, const auto& make) {
    return refusal_on_ranks([&](RuntimeContext& torch) {
      const Tensor x = is_x ? make(torch, Shape{4, 8}) : torch.zeros({4, 8}, kOnOnePe);
      const Tensor weights = is_x ? torch.zeros({4, 1}, kOnOnePe) : make(torch, Shape{4, 1});
      const std::vector<std::int64_t> experts = {0, 1, 2, 3};
      moe::dispatch(x, RuntimeContext::tensor(experts, {4, 1}), weights, 4);
    });
  };
  const auto none = [](RuntimeContext&, const Shape&) { return Tensor(); };
  const auto on_host = [](RuntimeContext&, const Shape& shape) {
    return RuntimeContext::tensor(Floats(static_cast<std::size_t>(shape.numel())), shape);
  };
  for (const bool is_x : {true, false}) {
    CHECK_THAT(refused(is_x, none), Says("KB-M001", "dispatch"));
    CHECK_THAT(refused(is_x, on_host), Says("KB-M019", "dispatch"));
  }
  for (const Shard shard : {Shard::column_wise, Shard::partial}) {
    const auto apart = [&](RuntimeContext& torch, const Shape& shape) {
      return torch.zeros(shape, {.dp = {shard, shard}});
    };
    CHECK_THAT(refused(true, apart), Says("KB-F003", "dispatch"));
  }
  CHECK_THAT(
      refusal_on_ranks([](RuntimeContext& torch) {
        moe::dispatch(torch.zeros({4, 8}, kOnOnePe), Tensor(), torch.zeros({4, 1}, kOnOnePe), 4);
      }),
      Says("KB-M001", "dispatch"));
}

TEST_CASE("combine refuses no tensor, one of the host, cut by columns or partial, and no handle",
          "[expert_parallel][errors]") {
  const auto refused = [](const auto& make) {
    return refusal_on_ranks([&](RuntimeContext& torch) {
      const Tensor y = make(torch);
      const std::vector<std::int64_t> experts = {0, 1, 2, 3};
      moe::combine(
          y, moe::dispatch(torch.zeros({4, 8}, kOnOnePe), RuntimeContext::tensor(experts, {4, 1}),
                           torch.zeros({4, 1}, kOnOnePe), 4)
                 .handle);
    });
  };
  CHECK_THAT(refused([](RuntimeContext&) { return Tensor(); }), Says("KB-M001", "combine"));
  CHECK_THAT(refused([](RuntimeContext&) {
               return RuntimeContext::tensor(Floats(32), {4, 8});
             }),
             Says("KB-M019", "combine"));
  for (const Shard shard : {Shard::column_wise, Shard::partial}) {
    const auto apart = [&](RuntimeContext& torch) {
      return torch.zeros({4, 8}, {.dp = {shard, shard}});
    };
    CHECK_THAT(refused(apart), Says("KB-F003", "combine"));
  }
  CHECK_THAT(refusal_on_ranks([](RuntimeContext& torch) {
               moe::combine(torch.zeros({4, 8}, kOnOnePe), moe::Handle());
             }),
             Says("KB-C029", "combine: the handle is none"));
  CHECK_THAT(refusal_on_ranks([](RuntimeContext&) { moe::sizes_of(moe::Handle()); }),
             Says("KB-C029", "sizes_of: the handle is none"));
}

TEST_CASE("the layer refuses tokens of another size, whatever their dimensions, and no tensor",
          "[expert_parallel][errors]") {
  const auto refused = [](const Shape& shape) {
    return refusal_on_ranks([&](RuntimeContext& torch) {
      const nn::MoE layer(torch, moe::MoEOptions{.dim = 8, .hidden_dim = 8, .num_experts = 4},
                          kOnOnePe);
      layer(torch.zeros(shape, kOnOnePe));
    });
  };
  CHECK_THAT(refused({6, 4}), Says("KB-F001", "(6x4 and 8x4)"));
  CHECK_THAT(refused({2, 3, 4}), Says("KB-F001", "(6x4 and 8x4)"));
  CHECK_THAT(refusal_on_ranks([](RuntimeContext& torch) {
               const nn::MoE layer(torch, moe::MoEOptions{.dim = 8, .num_experts = 4}, kOnOnePe);
               layer(Tensor());
             }),
             Says("KB-M001", "MoE"));
}

TEST_CASE("negative steps of a load are refused", "[expert_parallel][errors]") {
  CHECK_THAT(
      error_of<CollectiveError>([] { moe::RoutingLoad::parse("W6").experts({.step = -1}, 0); }),
      Says("KB-C029", "routing 'W6': steps are numbers from 0 on, and not -1"));
}

TEST_CASE("combine refuses other rows than dispatch gave", "[expert_parallel][errors]") {
  CHECK_THAT(refusal_on_ranks([](RuntimeContext& torch) {
               const moe::Dispatched sent = moe::dispatch(
                   torch.zeros({4, 8}, kOnOnePe),
                   RuntimeContext::tensor(std::vector<std::int64_t>{0, 1, 2, 3}, {4, 1}),
                   torch.zeros({4, 1}, kOnOnePe), 4);
               moe::combine(torch.zeros({3, 8}, kOnOnePe), sent.handle);
             }),
             Says("KB-C029", "y is [3, 8]; dispatch() gave this rank's experts 4 rows"));
}

std::string refused_groups(const Shape& x, const std::vector<std::int64_t>& sizes,
                           const std::vector<Shape>& weights,
                           const TensorOptions& options = kOnOnePe) {
  DataParallelWorld world(1);
  return world.refusal([&](int) {
    std::vector<Tensor> tensors;
    for (const Shape& weight : weights) tensors.push_back(world.torch.zeros(weight, kOnOnePe));
    F::grouped_mm(world.torch.zeros(x, options), sizes, tensors);
  });
}

TEST_CASE("grouped_mm refuses groups and weights that do not fit", "[expert_parallel][errors]") {
  CHECK_THAT(refused_groups({4, 8}, {4}, {}), Says("KB-F001", "1 groups and 0 weights"));
  CHECK_THAT(refused_groups({4, 8}, {2, 1}, {{6, 8}, {6, 8}}),
             Says("KB-F001",
                  "groups of 4 rows in all, none of them negative, are wanted of x "
                  "[4, 8]; these have 3"));
  CHECK_THAT(refused_groups({4, 8}, {5, -1}, {{6, 8}, {6, 8}}),
             Says("KB-F001", "none of them negative"));
  CHECK_THAT(refused_groups({4, 8}, {2, 2}, {{6, 8}, {6, 7}}),
             Says("KB-F001", "contraction dimension of mat_a and mat_b must match"));
  CHECK_THAT(refused_groups({4, 8}, {2, 2}, {{6, 8}, {5, 8}}), Says("KB-F001", "a weight [5, 8]"));
  CHECK_THAT(
      refused_groups({4, 8}, {4}, {{0, 8}}),
      Says("KB-F001", "x is [4, 8] and a weight [0, 8]: a feature is wanted on either side"));
  CHECK_THAT(
      refused_groups({4, 0}, {4}, {{6, 0}}),
      Says("KB-F001", "x is [4, 0] and a weight [6, 0]: a feature is wanted on either side"));
}

}  // namespace
}  // namespace kernbench::test::expert_parallel_errors_test
