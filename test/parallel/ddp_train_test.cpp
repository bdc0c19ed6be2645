// A small MLP on several ranks, trained in every way that there is, beside torch's real
// DistributedDataParallel (test/golden/ddp_train.txt, which says how weights and data are made, and
// ddp_train_more.txt).

#include <filesystem>
#include <fstream>
#include <memory>
#include <type_traits>

#include "runtime/optim/optimizer.h"
#include "runtime/parallel/fully_shard.h"
#include "test/parallel/data_parallel_world.h"
#include "tp/distributed_data_parallel.h"
#include "tp/parallel_state.h"

namespace kernbench::test::ddp_train_test {
namespace {

struct Step {
  double loss = 0;  // mean over ranks and samples
  double norm = 0;  // of the gradients, before they are clipped
  double sum = 0;   // of the weights after the step
  double squares = 0;
};

struct Run {
  int ranks = 0;
  std::string optimizer;  // as the file names it
  double clip = 1e30;
  int accumulation = 1;
  std::vector<Step> steps;  // torch's
};

std::string text_between(const std::string& line, std::string_view begin, std::string_view end) {
  const std::size_t from = line.find(begin) + begin.size();
  return line.substr(from, line.find(end, from) - from);
}

double number_after(const std::string& line, std::string_view word) {
  return std::stod(line.substr(line.find(word) + word.size()));
}

std::vector<Run> torch_runs(std::string_view file_name) {
  std::ifstream file(std::filesystem::path(KERNBENCH_ROOT) / "test/golden" / file_name);
  std::vector<Run> runs;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## W=")) {
      Run& run = runs.emplace_back();
      run.ranks = static_cast<int>(number_after(line, "W="));
      run.optimizer = text_between(line, "  ", "  ");
      if (line.find("clip=None") == std::string::npos) run.clip = number_after(line, "clip=");
      run.accumulation = static_cast<int>(number_after(line, "accumulation="));
    } else if (line.find("mean loss") != std::string::npos) {
      runs.back().steps.push_back({number_after(line, "mean loss "),
                                   number_after(line, "grad norm "), number_after(line, "sum w "),
                                   number_after(line, "sum w^2 ")});
    }
  }
  return runs;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 std::vector<Tensor> parameters) {
  if (name == "adamw lr .01 wd .01") {
    return std::make_unique<optim::AdamW>(std::move(parameters),
                                          optim::AdamWOptions(0.01).weight_decay(0.01));
  }
  if (name == "adam lr .01") return std::make_unique<optim::Adam>(std::move(parameters), 0.01);
  auto options = optim::SGDOptions(0.1);
  if (name == "sgd lr .1 momentum .9 wd .01") options.momentum(0.9).weight_decay(0.01);
  if (name == "sgd lr .1 momentum .9 nesterov") options.momentum(0.9).nesterov(true);
  return std::make_unique<optim::SGD>(std::move(parameters), options);
}

// Elements ((a r + b t + c n + d i) mod m - middle) / divisor of four rows n.
struct Formula {
  int a, b, c, d, m, middle, divisor;
  std::int64_t columns;

  Tensor tensor(DataParallelWorld& world, int rank, int t) const {
    Floats elements;
    for (int n = 0; n < 4; ++n) {
      for (int i = 0; i < columns; ++i) {
        elements.push_back(static_cast<float>((a * rank + b * t + c * n + d * i) % m - middle) /
                           static_cast<float>(divisor));
      }
    }
    return world.tensor(elements, {4, columns});
  }
};
constexpr Formula kX{31, 13, 5, 3, 13, 6, 8, 8};
constexpr Formula kY{17, 7, 3, 5, 11, 5, 4, 4};

nn::Sequential make_mlp(RuntimeContext& torch) {
  const nn::Sequential mlp(nn::Linear(torch, 8, 16, kOnOnePe), nn::ReLU(),
                           nn::Linear(torch, 16, 16, kOnOnePe), nn::ReLU(),
                           nn::Linear(torch, 16, 4, kOnOnePe));
  fill_parameters(torch, *mlp);
  return mlp;
}

// The loss of several samples, whose mean gradient backward() leaves.
template <class Model>
double accumulate(DataParallelWorld& world, Model& ddp, int rank, int step, int count) {
  double loss = 0;
  const auto add = [&](int sample) {
    const int t = step * count + sample;
    const Tensor one =
        nn::functional::mse_loss(ddp(kX.tensor(world, rank, t)), kY.tensor(world, rank, t));
    (one / count).backward();
    loss += one.template item<double>() / count;
  };
  {
    const auto guard = ddp->no_sync();
    for (int sample = 0; sample + 1 < count; ++sample) add(sample);
  }
  add(count - 1);
  return loss;
}

enum class Scheme {
  ddp,
  ddp_views,
  megatron,
  megatron_overlap,
  zero1,
  zero1_overlap,
  fsdp,
  fsdp_kept  // parameters stay after forward()
};

tp::DistributedDataParallelConfig config_of(Scheme scheme) {
  const bool overlaps = scheme == Scheme::megatron_overlap || scheme == Scheme::zero1_overlap;
  return {.grad_reduce_in_fp32 = true,
          .overlap_grad_reduce = overlaps,
          .use_distributed_optimizer = scheme == Scheme::zero1 || scheme == Scheme::zero1_overlap,
          .average_in_collective = false,
          .bucket_size = 100};
}

// A module that fully_shard has cut, called as the others are.
struct FullySharded {
  nn::Sequential module;
  distributed::fsdp::FSDPModule fsdp;

  struct [[nodiscard]] NoSync {
    explicit NoSync(const distributed::fsdp::FSDPModule& module) : fsdp(module) {
      fsdp.set_requires_gradient_sync(false);
    }
    ~NoSync() { fsdp.set_requires_gradient_sync(true); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

    const distributed::fsdp::FSDPModule fsdp;
  };
  NoSync no_sync() const { return NoSync(fsdp); }
  Tensor operator()(const Tensor& x) const { return module(x); }
  const FullySharded* operator->() const { return this; }
  const nn::Module& operator*() const { return *module; }
};

void add_weights(Step& step, const nn::Module& module) {
  for (const Tensor& parameter : module.parameters()) {
    for (const double w : parameter.to_vector()) {
      step.sum += w;
      step.squares += w * w;
    }
  }
}

// Calls `update` after each backward pass; it returns the norm of the gradients.
template <class Model, class Begin, class Update>
void train(DataParallelWorld& world, const Run& run, int rank, Model& model,
           std::vector<Step>& steps, const Begin& begin, const Update& update) {
  for (int i = 0; i < static_cast<int>(steps.size()); ++i) {
    begin();
    Step& step = steps[static_cast<std::size_t>(i)];
    step.loss += accumulate(world, model, rank, i, run.accumulation) / run.ranks;
    const double norm = update();
    if (rank == 0) step.norm = norm;
    if (rank == 0 || std::is_same_v<Model, const FullySharded>) add_weights(step, *model);
  }
}

void train_ddp(DataParallelWorld& world, const Run& run, Scheme scheme, int rank,
               std::vector<Step>& steps) {
  nn::parallel::DistributedDataParallel ddp(
      make_mlp(world.torch), {.gradient_as_bucket_view = scheme == Scheme::ddp_views});
  const auto optimizer = make_optimizer(run.optimizer, ddp->parameters());
  train(
      world, run, rank, ddp, steps, [&] { optimizer->zero_grad(); },
      [&] {
        const double norm = nn::utils::clip_grad_norm_(ddp->parameters(), run.clip);
        optimizer->step();
        return norm;
      });
}

void train_megatron(DataParallelWorld& world, const Run& run, Scheme scheme, int rank,
                    std::vector<Step>& steps) {
  tp::initialize_model_parallel(world.torch, {});
  tp::DistributedDataParallel model(world.torch, config_of(scheme), make_mlp(world.torch));
  tp::MegatronOptimizer optimizer(
      world.torch, model->buckets(),
      [&](std::vector<Tensor> shards) { return make_optimizer(run.optimizer, std::move(shards)); },
      {.clip_grad = run.clip});
  train(
      world, run, rank, model, steps, [&] { model->zero_grad_buffer(); },
      [&] {
        tp::finalize_model_grads(model);
        return optimizer.step().grad_norm;
      });
}

void train_fsdp(DataParallelWorld& world, const Run& run, Scheme scheme, int rank,
                std::vector<Step>& steps) {
  const nn::Sequential mlp = make_mlp(world.torch);
  for (const auto& layer : mlp->children()) {
    if (layer->parameters().empty()) continue;
    distributed::fsdp::fully_shard(*layer, {.reshard_after_forward = scheme == Scheme::fsdp});
  }
  const FullySharded model{mlp, distributed::fsdp::fully_shard(mlp)};
  const auto optimizer = make_optimizer(run.optimizer, mlp->parameters());
  train(
      world, run, rank, model, steps, [&] { optimizer->zero_grad(); },
      [&] {
        const double norm = nn::utils::clip_grad_norm_(mlp->parameters(), run.clip);
        optimizer->step();
        return norm;
      });
}

std::vector<Step> train(DataParallelWorld& world, const Run& run, Scheme scheme) {
  std::vector<Step> steps(run.steps.size());
  world.spawn([&](int rank) {
    const bool is_fsdp = scheme == Scheme::fsdp || scheme == Scheme::fsdp_kept;
    if (is_fsdp) return train_fsdp(world, run, scheme, rank, steps);
    const bool is_ddp = scheme == Scheme::ddp || scheme == Scheme::ddp_views;
    if (is_ddp) return train_ddp(world, run, scheme, rank, steps);
    train_megatron(world, run, scheme, rank, steps);
  });
  return steps;
}

void check_is_close(const std::vector<Step>& steps, const std::vector<Step>& expected) {
  REQUIRE(steps.size() == 6);
  const auto close = [](double number) { return Approx(number).epsilon(2e-6); };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CAPTURE(i);
    CHECK(steps[i].loss == close(expected[i].loss));
    CHECK(steps[i].norm == close(expected[i].norm));
    CHECK(steps[i].sum == close(expected[i].sum));
    CHECK(steps[i].squares == close(expected[i].squares));
  }
}

TEST_CASE("an MLP on several ranks learns as torch's DistributedDataParallel does", "[ddp]") {
  const std::vector<Run> runs = torch_runs("ddp_train.txt");
  REQUIRE(runs.size() == 3);
  const auto& run = runs[GENERATE(0U, 1U, 2U)];
  const char* const backend = GENERATE("local", "ahbm");
  const bool blocks = GENERATE(true, false);
  const Scheme scheme =
      GENERATE(Scheme::ddp, Scheme::ddp_views, Scheme::megatron, Scheme::megatron_overlap,
               Scheme::zero1, Scheme::zero1_overlap, Scheme::fsdp, Scheme::fsdp_kept);
  CAPTURE(run.optimizer, run.accumulation, backend, blocks, scheme);
  DataParallelWorld world(run.ranks, backend, {.launch_blocking = blocks});
  check_is_close(train(world, run, scheme), run.steps);
}

TEST_CASE("an MLP on 1, 2 and 4 ranks learns with every optimizer as with torch", "[ddp]") {
  const std::vector<Run> runs = torch_runs("ddp_train_more.txt");
  REQUIRE(runs.size() == 24);
  const Scheme scheme = GENERATE(Scheme::ddp, Scheme::zero1_overlap);
  for (const Run& run : runs) {
    CAPTURE(run.ranks, run.optimizer, run.clip, run.accumulation, scheme);
    DataParallelWorld world(run.ranks, "local");
    check_is_close(train(world, run, scheme), run.steps);
  }
}

TEST_CASE("messages and collectives carry values of compiled operators", "[ddp][compile]") {
  const std::string_view backend = GENERATE("ahbm", "local");
  DataParallelWorld world(2, backend);
  world.spawn([&](int rank) {
    auto& dist = world.torch.distributed;
    const Tensor x = world.tensor({1, 2, 3, 4}, {4}) + rank;
    const auto exchange = compile([&](const Tensor& of) {
      const Tensor own = of * 2 + 1;
      const Tensor others = world.torch.empty_like(own);
      const auto sent = dist.isend(own, 1 - rank);
      dist.recv(others, 1 - rank);
      sent.wait();
      const Tensor sum = of * 3;
      dist.all_reduce(sum);
      return others * 1 + sum;
    });
    Floats expected;
    for (int i = 1; i <= 4; ++i) {
      expected.push_back(static_cast<float>(2 * (i + 1 - rank) + 1 + 3 * (2 * i + 1)));
    }
    CHECK(exchange(x).to_vector() == expected);
  });
}

TEST_CASE("a compiled module learns in buckets as without", "[ddp][compile]") {
  const std::string_view backend = GENERATE("ahbm", "local");
  const auto train = [&](bool is_compiled) {
    std::vector<Floats> weights;
    DataParallelWorld world(2, backend);
    world.spawn([&](int rank) {
      const nn::Sequential model(nn::Linear(world.torch, kBatchColumns, 8, kOnOnePe), nn::SiLU(),
                                 nn::LayerNorm(world.torch, 8, kOnOnePe),
                                 nn::Linear(world.torch, 8, kBatchColumns, kOnOnePe));
      fill_parameters(world.torch, *model);
      const nn::parallel::DistributedDataParallel ddp(model);
      optim::AdamW adam(model->parameters(), 0.01);
      const auto loss = [&](const Tensor& x) { return square(ddp(x) * 2 - x).mean(); };
      const auto compiled = compile(loss);
      for (int step = 0; step < 3; ++step) {
        const Tensor x = world.tensor(batch_rows(8 * rank, 8, step), {8, kBatchColumns});
        adam.zero_grad();
        (is_compiled ? compiled(x) : loss(x)).backward();
        adam.step();
      }
      if (rank > 0) return;
      for (const Tensor& parameter : model->parameters()) weights.push_back(parameter.to_vector());
    });
    return weights;
  };
  CHECK(train(true) == train(false));
}

}  // namespace
}  // namespace kernbench::test::ddp_train_test
