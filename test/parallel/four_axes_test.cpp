// Trains a small transformer on a mesh of four axes, pipeline, sharded data, context and tensor
// parallel, to the losses of one rank; with experts on the ranks that share a sequence, too.

#include <cmath>
#include <string>
#include <vector>

#include "runtime/context_parallel/context_parallel.h"
#include "runtime/expert_parallel/moe.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/optim/optimizer.h"
#include "test/parallel/fsdp_world.h"
#include "test/parallel/pipeline_world.h"
#include "tp/layers.h"

namespace kernbench::test::four_axes_test {
namespace {

namespace F = nn::functional;
using pipelining::ActionLists;
using pipelining::PipelineSize;
using pipelining::PipelineStage;

constexpr int kStages = 2;
constexpr int kMicrobatches = 2;
constexpr int kSteps = 3;
constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kSeq = 8;
constexpr std::int64_t kHidden = 8;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kWide = 16;

// Multiples of 1/64 between -1/4 and 1/4.
Floats by_formula(std::int64_t count, std::int64_t k) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<float>((i * k + i / 5 + 3 * k) % 33 - 16) / 64);
  }
  return elements;
}

tp::InitMethod formula(std::int64_t k) {
  return tp::InitMethod(
      [k](const Shape& shape, tp::Generator&) { return by_formula(shape.numel(), k); });
}

// Experts whose parameters depend on their names among all alone.
nn::MoE make_experts(RuntimeContext& torch, const distributed::DeviceMesh& mesh, std::int64_t k) {
  nn::MoE experts(torch,
                  moe::MoEOptions{.dim = kHidden,
                                  .hidden_dim = kWide,
                                  .num_experts = 4,
                                  .router = {.top_k = 2, .route_norm = true},
                                  .dispatch = {.group = mesh["cp"].get_group()}},
                  kOnOnePe);
  for (const auto& item : experts->named_parameters()) {
    std::int64_t seed = k;
    for (const char letter : item.key()) seed = (31 * seed + letter) % 97;
    const Tensor& parameter = item.value();
    parameter.detach().copy_(
        RuntimeContext::tensor(by_formula(parameter.numel(), seed), parameter.shape()));
  }
  return experts;
}

struct BlockImpl : nn::Module {
  BlockImpl(RuntimeContext& torch, const distributed::DeviceMesh& mesh, std::int64_t k,
            bool has_experts)
      : group_(mesh["tp"].get_group()),
        query(torch, column(kHidden, k)),
        key(torch, column(kHidden, k + 2)),
        value(torch, column(kHidden, k + 4)),
        out(torch, row(kHidden, k + 6)),
        up(torch, column(kWide, k + 8)),
        down(torch, row(kWide, k + 10)) {
    register_module("query", query);
    register_module("key", key);
    register_module("value", value);
    register_module("out", out);
    register_module("up", up);
    register_module("down", down);
    if (has_experts) experts = register_module("experts", make_experts(torch, mesh, k));
  }

  // [b, s, hidden]: the sequence is the rank's part of it.
  Tensor forward(const Tensor& x) const {
    const auto heads = [&](const Tensor& part) {
      return contiguous(
          transpose(reshape(part, {x.size(0), x.size(1), -1, kHidden / kHeads}), 1, 2));
    };
    const Tensor seen = F::scaled_dot_product_attention(heads(query(x)), heads(key(x)),
                                                        heads(value(x)), {.is_causal = true});
    const Tensor joined = reshape(contiguous(transpose(seen, 1, 2)), {x.size(0), x.size(1), -1});
    const Tensor y = x + out(joined);
    const Tensor z = y + down(F::gelu(up(y)));
    return experts ? z + experts(z) : z;
  }

  // Gradients of the rank's own losses are summed over the ranks that have the same parameters; an
  // expert's have come from all ranks of its group.
  void reduce_gradients_of_experts(RuntimeContext& torch, const distributed::DeviceMesh& mesh,
                                   const distributed::DeviceMesh& shards) const {
    if (!experts) return;
    for (const auto& item : experts->named_parameters()) {
      const bool is_router = item.key().starts_with("router");
      torch.distributed.all_reduce(
          item.value().grad(), ReduceOp::sum,
          {.group = is_router ? shards.get_group() : mesh.get_group("dp_shard")});
      item.value().grad().div_(shards.size());
    }
  }

 private:
  tp::ColumnParallelLinearOptions column(std::int64_t features, std::int64_t k) const {
    return {.in_features = kHidden,
            .out_features = features,
            .init_method = formula(k),
            .dtype = DType::f32,
            .tp_group = group_};
  }
  tp::RowParallelLinearOptions row(std::int64_t features, std::int64_t k) const {
    return {.in_features = features,
            .out_features = kHidden,
            .init_method = formula(k),
            .dtype = DType::f32,
            .tp_group = group_};
  }

  distributed::ProcessGroup group_;
  tp::ColumnParallelLinear query;
  tp::ColumnParallelLinear key;
  tp::ColumnParallelLinear value;
  tp::RowParallelLinear out;
  tp::ColumnParallelLinear up;
  tp::RowParallelLinear down;

 public:
  nn::MoE experts = nullptr;
};
KERNBENCH_MODULE(Block);

struct Axes {
  int pp = 1;
  int dp = 1;
  int cp = 1;
  int tp = 1;
  bool has_experts = false;

  int ranks() const { return pp * dp * cp * tp; }
};

class Training {
 public:
  Training(const Axes& axes, const ActionLists& lists) : axes_(axes), world_(axes.ranks()) {
    world_.spawn([&](int) { train(lists); });
  }

  std::vector<double> losses = std::vector<double>(kSteps);

 private:
  // The rows of the caller's replica.
  Tensor batch(const distributed::DeviceMesh& mesh, std::int64_t k) {
    const std::int64_t rows = kBatch / axes_.dp;
    const std::int64_t count = rows * kSeq * kHidden;
    const Floats all = by_formula(kBatch * kSeq * kHidden, k);
    const auto begin = all.begin() + mesh.get_local_rank("dp_shard") * count;
    return world_.tensor(Floats(begin, begin + count), {rows, kSeq, kHidden});
  }

  void train(const ActionLists& lists) {
    const auto mesh = world_.torch.distributed.init_device_mesh(
        "ahbm", {axes_.pp, axes_.dp, axes_.cp, axes_.tp}, {"pp", "dp_shard", "cp", "tp"});
    const auto shards = mesh[{"dp_shard", "cp"}]._flatten("fsdp");
    std::vector<PipelineStage> stages;
    std::vector<Block> blocks;
    std::vector<Tensor> parameters;
    for (int i = 0; i < kStages; ++i) {
      if (i % axes_.pp != mesh.get_local_rank("pp")) continue;
      blocks.emplace_back(world_.torch, mesh, 7 + 12 * i, axes_.has_experts);
      std::vector<Tensor> of_experts;
      if (axes_.has_experts) of_experts = blocks.back()->experts->parameters();
      fully_shard(blocks.back(), {.mesh = shards, .ignored_params = of_experts});
      for (const Tensor& each : blocks.back()->parameters()) parameters.push_back(each);
      stages.emplace_back(world_.torch, blocks.back(), i, kStages,
                          pipelining::PipelineStageOptions{.group = mesh.get_group("pp")});
    }
    pipelining::PipelineScheduleRuntime schedule(
        stages, kMicrobatches,
        [](const Tensor& y, const Tensor& target) { return F::mse_loss(y, target); }, lists);
    optim::SGD optimizer(parameters, 0.5);
    for (std::size_t step = 0; step < kSteps; ++step) {
      Tensor x = batch(mesh, 13);
      Tensor target = batch(mesh, 19);
      std::vector<Tensor> own;
      experimental::context_parallel(mesh["cp"],
                                     {.buffers = {x, target}, .buffer_seq_dims = {1, 1}},
                                     [&] { schedule.step(x, {.target = target, .losses = &own}); });
      for (const Tensor& loss : own) {
        losses[step] += loss.item<double>() / (kMicrobatches * axes_.dp * axes_.cp * axes_.tp);
      }
      for (const Block& block : blocks) {
        block->reduce_gradients_of_experts(world_.torch, mesh, shards);
      }
      optimizer.step();
      optimizer.zero_grad();
    }
  }

  const Axes axes_;
  DataParallelWorld world_;
};

void check_losses(bool has_experts) {
  const auto size = [](int ranks) {
    return PipelineSize{.stages = kStages, .ranks = ranks, .microbatches = kMicrobatches};
  };
  const std::vector<double> expected =
      Training({.has_experts = has_experts}, looped_bfs(size(1))).losses;
  REQUIRE(expected.back() < 0.98 * expected.front());
  const auto check = [&](Axes axes, const ActionLists& lists) {
    axes.has_experts = has_experts;
    const std::vector<double> found = Training(axes, lists).losses;
    for (std::size_t step = 0; step < kSteps; ++step) {
      CAPTURE(axes.pp, axes.dp, axes.cp, axes.tp, step);
      CHECK(found[step] == Approx(expected[step]).epsilon(2e-6));
    }
  };
  check({.pp = 2}, zb_h1(size(2)));
  check({.dp = 2, .cp = 2}, looped_bfs(size(1)));
  check({.pp = 2, .dp = 2, .cp = 2, .tp = 2}, one_f_one_b(size(2)));
  check({.pp = 2, .dp = 2, .cp = 2, .tp = 2}, zb_h1(size(2)));
}

TEST_CASE("16 ranks on four axes train to the losses of one rank",
          "[pipelining][fsdp][context_parallel][tp]") {
  check_losses(false);
}

TEST_CASE("16 ranks on four axes with experts among them train to the losses of one rank",
          "[pipelining][fsdp][context_parallel][tp][expert_parallel]") {
  check_losses(true);
}

}  // namespace
}  // namespace kernbench::test::four_axes_test
