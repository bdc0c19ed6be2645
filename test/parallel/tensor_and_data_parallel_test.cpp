// Data parallel training beside tensor parallel layers: what dp x tp ranks learn is what one rank
// learns over the whole batch, bit for bit where sums are exact.

#include <algorithm>

#include "runtime/optim/optimizer.h"
#include "test/parallel/fsdp_world.h"
#include "tp/distributed_data_parallel.h"
#include "tp/layers.h"
#include "tp/parallel_state.h"
#include "tp/param_and_grad_buffer.h"

namespace kernbench::test::tensor_and_data_parallel_test {
namespace {

constexpr std::int64_t kRows = 16;  // of the whole batch
constexpr std::int64_t kColumns = 4;
constexpr std::int64_t kHidden = 8;

// A small whole number.
float integer(std::int64_t i, int seed) {
  return static_cast<float>((7 * i + 11 * seed + 3) % 5 - 2);
}

tp::InitMethod integers(int seed) {
  return tp::InitMethod([seed](const Shape& shape, tp::Generator&) {
    Floats all;
    for (std::int64_t i = 0; i < shape.numel(); ++i) all.push_back(integer(i, seed));
    return all;
  });
}

// Adds to columns, as a LayerNorm's bias does.
struct ShiftImpl : nn::Module {
  explicit ShiftImpl(RuntimeContext& torch)
      : bias(register_parameter("bias", torch.zeros({kColumns}, kOnOnePe))) {}
  Tensor forward(const Tensor& x) const { return x + bias; }

  Tensor bias;
};
KERNBENCH_MODULE(Shift);
struct SequenceParallelShift : nn::ModuleHolder<tp::SequenceParallel<ShiftImpl>> {
  using ModuleHolder::ModuleHolder;
};

template <class FirstLayer>
struct MlpImpl : nn::Module {
  MlpImpl(RuntimeContext& torch, bool sequence_parallel, int stride = 1)
      : shift(register_module("shift", FirstLayer(torch))),
        up(torch, {.in_features = kColumns,
                   .out_features = kHidden,
                   .sequence_parallel = sequence_parallel,
                   .stride = stride,
                   .init_method = integers(1),
                   .dtype = DType::f32}),
        down(torch, {.in_features = kHidden,
                     .out_features = kColumns,
                     .sequence_parallel = sequence_parallel,
                     .init_method = integers(2),
                     .dtype = DType::f32}) {
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(const Tensor& x) const { return down(relu(up(shift(x)))); }

  FirstLayer shift;
  tp::ColumnParallelLinear up;
  tp::RowParallelLinear down;
};
template <class FirstLayer>
using Mlp = nn::ModuleHolder<MlpImpl<FirstLayer>>;

enum class Scheme { ddp, megatron, zero1, zero1_overlap, param_gather, fsdp2 };

struct Setting {
  int tp = 1;
  int dp = 1;
  bool sequence_parallel = false;
  Scheme scheme = Scheme::megatron;
  double clip = 1e30;
  int replicas = 1;  // of fsdp2: groups of ranks that have the same shards (HSDP)
};

// The results of two steps.  A third one's sums need more than 24 bits, so they would no longer be
// exact.
struct Learned {
  std::vector<double> losses = std::vector<double>(2);  // summed over the batch
  std::vector<double> norms = std::vector<double>(2);
  double squares = 0;  // of the weights, over all ranks that have others
  friend bool operator==(const Learned&, const Learned&) = default;
};

class Trained {
 public:
  explicit Trained(const Setting& setting) : setting_(setting), world_(setting.tp * setting.dp) {
    world_.spawn([&](int rank) {
      tp::initialize_model_parallel(world_.torch, {.tensor_model_parallel_size = setting.tp});
      setting_.sequence_parallel ? train<SequenceParallelShift>(rank) : train<Shift>(rank);
    });
  }

  Learned learned;

 private:
  template <class FirstLayer>
  void train(int rank) {
    const Mlp<FirstLayer> mlp(world_.torch, setting_.sequence_parallel && setting_.tp > 1);
    if (setting_.scheme == Scheme::ddp) {
      train_ddp(rank, mlp);
    } else if (setting_.scheme == Scheme::fsdp2) {
      train_fsdp(rank, mlp);
    } else {
      train_megatron(rank, mlp);
    }
    for (const tp::Parameter& parameter : tp::parallel_parameters(*mlp.ptr())) {
      const bool is_first = tp::get_data_parallel_rank(world_.torch) < ranks_with_other_elements();
      const bool counts = is_first && tp::counts_in_norms(world_.torch, parameter);
      for (const double w : parameter.to_vector()) learned.squares += counts ? w * w : 0;
    }
  }

  int ranks_with_other_elements() const {
    return setting_.scheme == Scheme::fsdp2 ? setting_.dp / setting_.replicas : 1;
  }

  template <class Holder>
  void train_fsdp(int rank, const Holder& mlp) {
    const auto mesh = world_.torch.distributed.init_device_mesh(
        "ahbm", {setting_.replicas, setting_.dp / setting_.replicas, setting_.tp},
        {"replicate", "shard", "tp"});
    const std::vector<std::string> replicated{"replicate", "shard"};
    const FullyShardOptions options{.mesh =
                                        setting_.replicas == 1 ? mesh["shard"] : mesh[replicated]};
    for (const auto& layer : mlp->children()) fully_shard(*layer, options);
    fully_shard(mlp, options);
    optim::SGD optimizer(mlp->nn::Module::parameters(), 1.0);
    train_with(rank, mlp, optimizer, *mlp);
  }

  // Clips as Megatron does beside the layers, whose model is trained by the holder.
  template <class Model>
  void train_with(int rank, Model& model, optim::Optimizer& optimizer, nn::Module& layers) {
    steps(rank, model, [&] {
      const auto parameters = tp::parallel_parameters(layers);
      tp::allreduce_sequence_parallel_gradients(world_.torch, parameters);
      const double norm = tp::clip_grad_norm(world_.torch, parameters, setting_.clip);
      optimizer.step();
      optimizer.zero_grad();
      return norm;
    });
  }

  template <class Holder>
  void train_ddp(int rank, const Holder& mlp) {
    nn::parallel::DistributedDataParallel ddp(
        mlp, {.process_group = tp::get_data_parallel_group(world_.torch), .bucket_cap_mb = 0});
    optim::SGD optimizer(ddp->parameters(), 1.0);
    train_with(rank, ddp, optimizer, *mlp);
  }

  template <class Holder>
  void train_megatron(int rank, const Holder& mlp) {
    const bool overlaps = setting_.scheme >= Scheme::zero1_overlap;
    tp::DistributedDataParallel model(
        world_.torch,
        {.overlap_grad_reduce = overlaps,
         .use_distributed_optimizer = setting_.scheme != Scheme::megatron,
         .overlap_param_gather = setting_.scheme == Scheme::param_gather,
         .bucket_size = 20},
        mlp);
    tp::MegatronOptimizer optimizer(world_.torch, model->buckets(),
                                    [](std::vector<Tensor> shards) {
                                      return std::make_unique<optim::SGD>(std::move(shards), 1.0);
                                    },
                                    {.clip_grad = setting_.clip});
    steps(rank, model, [&] {
      tp::finalize_model_grads(model);
      const double norm = optimizer.step().grad_norm;
      model->zero_grad_buffer();
      return norm;
    });
    model->finish_param_sync();
  }

  // Rows of small whole numbers: of the ranks that share a batch all, or each its part.
  Tensor rows(int seed) {
    const bool is_cut = setting_.sequence_parallel;
    const int parts = setting_.dp * (is_cut ? setting_.tp : 1);
    const int part = tp::get_data_parallel_rank(world_.torch) * (is_cut ? setting_.tp : 1) +
                     (is_cut ? tp::get_tensor_model_parallel_rank(world_.torch) : 0);
    const std::int64_t count = kRows / parts;
    Floats elements;
    for (std::int64_t i = part * count * kColumns; i < (part + 1) * count * kColumns; ++i) {
      elements.push_back(static_cast<float>((i * 5 + i / 7 * 3 + seed) % 3 - 1));
    }
    return world_.tensor(elements, {count, kColumns});
  }

  template <class Model, class Update>
  void steps(int rank, Model& model, const Update& update) {
    const Tensor x = rows(1);
    const Tensor t = rows(2);
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor loss = (model(x) * t).sum() / static_cast<double>(kRows / setting_.dp);
      loss.backward();
      const int copies = setting_.sequence_parallel ? 1 : setting_.tp;
      learned.losses[i] += loss.item<double>() / (setting_.dp * copies);
      const double norm = update();
      if (rank == 0) learned.norms[i] = norm;
    }
  }

  const Setting setting_;
  DataParallelWorld world_;
};

TEST_CASE("tp x dp ranks learn what one rank learns over the whole batch, bit for bit",
          "[ddp][tp][exhaustive]") {
  const auto scheme = GENERATE(Scheme::ddp, Scheme::megatron, Scheme::zero1, Scheme::zero1_overlap,
                               Scheme::param_gather, Scheme::fsdp2);
  const Learned alone = Trained({.scheme = scheme}).learned;
  CHECK(alone.losses[0] != alone.losses[1]);
  for (const auto& [tp, dp] : {std::pair{2, 2}, {2, 4}, {2, 8}, {4, 2}, {8, 1}}) {
    for (const bool sequence_parallel : {false, true}) {
      CAPTURE(scheme, tp, dp, sequence_parallel);
      const Learned learned = Trained({tp, dp, sequence_parallel, scheme}).learned;
      CHECK(learned.losses == alone.losses);
      CHECK(learned.norms[0] == alone.norms[0]);
      // 76 squares are added up in another order, with a rounding of 2^-24 each.
      CHECK(learned.norms[1] == Approx(alone.norms[1]).epsilon(76 * 0x1p-25));
      CHECK(learned.squares == alone.squares);
    }
  }
}

TEST_CASE("replicas of shards beside tp ranks learn the same", "[fsdp][tp]") {
  const Learned alone = Trained({.scheme = Scheme::fsdp2}).learned;
  const Learned learned =
      Trained({.tp = 2, .dp = 4, .scheme = Scheme::fsdp2, .replicas = 2}).learned;
  CHECK(learned.losses == alone.losses);
  CHECK(learned.norms[0] == alone.norms[0]);
  CHECK(learned.squares == alone.squares);
}

// A weight of two chunks, as of a matrix that joins two, and shards of which some have no rows.
TEST_CASE("whole states are gathered over dp and tp, and each rank takes its part", "[fsdp][tp]") {
  DataParallelWorld world(8);
  world.spawn([&](int) {
    tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = 2});
    const Mlp<Shift> mlp(world.torch, false, 2);
    Floats whole;
    for (std::int64_t i = 0; i < kColumns * kHidden; ++i) whole.push_back(integer(i, 1));
    CHECK(tp::get_full_state_dict(world.torch, *mlp)["up.weight"].to_vector() == whole);
    const auto mesh = world.torch.distributed.init_device_mesh("ahbm", {4, 2}, {"dp", "tp"});
    for (const auto& layer : mlp->children()) fully_shard(*layer, {.mesh = mesh["dp"]});
    const nn::StateDict state = tp::get_full_state_dict(world.torch, *mlp);
    CHECK(state["shift.bias"].shape() == Shape{kColumns});
    CHECK(state["down.weight"].shape() == Shape{kHidden, kColumns});
    CHECK(state["up.weight"].to_vector() == whole);
    const Floats own = mlp->nn::Module::parameters()[1].to_vector();
    for (const Tensor& parameter : mlp->nn::Module::parameters()) {
      if (parameter.numel() > 0) parameter.detach().zero_();
    }
    tp::set_full_state_dict(world.torch, *mlp, state);
    CHECK(mlp->nn::Module::parameters()[1].to_vector() == own);
    CHECK(tp::get_full_state_dict(world.torch, *mlp)["up.weight"].to_vector() == whole);
    CHECK_THROWS_WITH(tp::set_full_state_dict(world.torch, *mlp, {}), Catch::Contains("KB-A011"));
  });
}

// Gradients that are multiplied by a coefficient are no longer exact, so they are compared within a
// bound.
TEST_CASE("gradients are clipped by the norm over all ranks that hold a model's parts",
          "[ddp][tp]") {
  const auto scheme = GENERATE(Scheme::ddp, Scheme::megatron, Scheme::zero1, Scheme::fsdp2);
  const Learned alone = Trained({.scheme = scheme, .clip = 0.5}).learned;
  const Learned learned = Trained({2, 2, true, scheme, 0.5}).learned;
  CHECK(learned.norms[0] == alone.norms[0]);
  CHECK(learned.norms[0] > 0.5);
  CHECK(learned.norms[1] == Approx(alone.norms[1]).epsilon(1e-6));
  CHECK(learned.squares == Approx(alone.squares).epsilon(1e-6));
}

// In Megatron's order, and at its places.
TEST_CASE("parameters begin at multiples of 64 of a bucket, whose end is one of dp and 128",
          "[ddp][tp]") {
  DataParallelWorld world(3, "local");
  world.spawn([&](int rank) {
    tp::initialize_model_parallel(world.torch);
    const nn::Sequential net(nn::Linear(world.torch, 5, 3, kOnOnePe),
                             nn::Linear(world.torch, 3, 2, kOnOnePe));
    fill_parameters(world.torch, *net);
    const tp::DistributedDataParallel model(
        world.torch,
        {.overlap_grad_reduce = true, .use_distributed_optimizer = true, .bucket_size = 60}, net);
    REQUIRE(model->buckets().size() == 2);
    const auto& bucket = *model->buckets().front();
    const auto parameters = net->parameters();
    const Floats weight = parameters[2].to_vector();
    const Floats bias = parameters[3].to_vector();
    Floats expected(384);  // lcm(3, 128)
    std::ranges::copy(bias, expected.begin());
    std::ranges::copy(weight, expected.begin() + 64);
    CHECK(bucket.pack_params().to_vector() == expected);
    CHECK(bucket.grad_data().numel() == 384);
    CHECK((bucket.shard_begin() == 128 * rank && bucket.shard_size() == 128));
  });
}

TEST_CASE("a step before the gradients are reduced is refused", "[ddp][tp]") {
  DataParallelWorld world(2);
  const bool overlaps = GENERATE(false, true);
  CHECK_THAT(world.refusal([&](int) {
    tp::initialize_model_parallel(world.torch);
    const nn::Linear linear(world.torch, 4, 4, kOnOnePe);
    const tp::DistributedDataParallel model(world.torch, {.overlap_grad_reduce = overlaps}, linear);
    tp::MegatronOptimizer optimizer(world.torch, model->buckets(), [](std::vector<Tensor> shards) {
      return std::make_unique<optim::SGD>(std::move(shards), 0.5);
    });
    for (const bool finalizes : {true, false}) {
      model->zero_grad_buffer();
      model(world.torch.ones({1, 4}, kOnOnePe)).sum().backward();
      if (finalizes) tp::finalize_model_grads(model);
      optimizer.step();
    }
  }),
             Catch::Contains("KB-T008") && Catch::Contains("call finalize_model_grads() after the "
                                                           "last backward(), then step()"));
}

TEST_CASE("parameters are gathered ahead only where ranks share the optimizer", "[ddp][tp]") {
  DataParallelWorld world(2);
  const auto refusal = [&](const tp::DistributedDataParallelConfig& config) {
    return world.refusal([&](int) {
      tp::initialize_model_parallel(world.torch);
      tp::DistributedDataParallel(world.torch, config, nn::Linear(world.torch, 4, 4, kOnOnePe));
    });
  };
  CHECK_THAT(refusal({.overlap_grad_reduce = true, .overlap_param_gather = true}),
             Catch::Contains("KB-T006") && Catch::Contains("only supported with"));
}

}  // namespace
}  // namespace kernbench::test::tensor_and_data_parallel_test
