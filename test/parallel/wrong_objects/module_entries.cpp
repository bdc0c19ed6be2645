// Modules, optimizers, their states, and modules on many ranks.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "runtime/optim/float16_optimizer.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/parallel/fully_shard.h"
#include "test/parallel/wrong_objects/given.h"
#include "tp/layers.h"
#include "tp/mappings.h"

namespace kernbench::test::wrong_objects {

namespace {

const TensorOptions kModulesOnOnePe{.dp = DPPolicy::on_one_pe()};

struct OwnModule : nn::Module {};

// A state of few tensors, some of which have an optimizer's names.
nn::State state(Given& g) {
  nn::State state;
  for (const char* name : {"weight", "bias", "state.0.exp_avg", "state.0.momentum_buffer"}) {
    if (g.flag()) state.tensors.insert(name, g.tensor());
  }
  for (const char* name : {"state.0.step", "param_groups.0.lr"}) {
    if (g.flag()) state.numbers.insert(name, g.number());
  }
  return state;
}

// Steps twice with gradients that are given.
template <class Optimizer>
void train(Given& g, Optimizer optimizer) {
  for (const Tensor& parameter : optimizer.parameters()) {
    if (g.flag()) parameter.mutable_grad() = g.tensor();
  }
  optimizer.step();
  optimizer.load_state_dict(g.flag() ? optimizer.state_dict() : state(g));
  optimizer.step();
  optimizer.zero_grad(g.flag());
}

template <class Layer>
Tensor layer(Given& g, Layer made) {
  return made(g.tensor());
}

std::string scratch_file(const Given& g) {
  return (std::filesystem::temp_directory_path() /
          fmt::format("kernbench-wrong-objects-{}-{}.npz", ::getpid(), g.rank))
      .string();
}

void save_and_load(Given& g) {
  const std::string path = scratch_file(g);
  nn::save(state(g), path);
  (void)nn::load(path);
  std::filesystem::remove(path);
}

std::vector<Entry> optimizer_entries() {
  return {
      KB_ENTRY("SGD", train(g, optim::SGD(g.tensors(), g.number()))),
      KB_ENTRY("SGD with momentum",
               train(g, optim::SGD(g.tensors(), optim::SGDOptions(0.1).momentum(g.number())))),
      KB_ENTRY("Adam", train(g, optim::Adam(g.tensors()))),
      KB_ENTRY("AdamW", train(g, optim::AdamW(g.tensors(), g.number()))),
      KB_ENTRY("StepLR",
               [&] {
                 optim::SGD sgd({g.torch.ones({2}, kModulesOnOnePe).requires_grad_()}, 0.1);
                 optim::StepLR scheduler(sgd, g.size(), g.number());
                 scheduler.step();
               }()),
      KB_ENTRY("CosineAnnealingLR",
               [&] {
                 optim::SGD sgd({g.torch.ones({2}, kModulesOnOnePe).requires_grad_()}, 0.1);
                 optim::CosineAnnealingLR scheduler(sgd, g.size(), g.number());
                 scheduler.step();
               }()),
      KB_ENTRY("set_lr",
               [&] {
                 optim::SGD sgd({g.torch.ones({2}, kModulesOnOnePe).requires_grad_()}, 0.1);
                 sgd.set_lr(g.below(3), g.number());
                 (void)sgd.lr(g.below(3));
               }()),
      KB_ENTRY("GradScaler",
               [&] {
                 optim::SGD sgd({g.torch.ones({2}, kModulesOnOnePe).requires_grad_()}, 0.1);
                 sgd.parameters().front().mutable_grad() = g.tensor();
                 optim::GradScaler scaler;
                 look_at(scaler.scale(g.tensor()));
                 scaler.step(sgd);
                 scaler.update();
               }()),
      KB_ENTRY("clip_grad_norm_", nn::utils::clip_grad_norm_(g.tensors(), g.number())),
      KB_ENTRY("clip_grad_value_", nn::utils::clip_grad_value_(g.tensors(), g.number())),
  };
}

std::vector<Entry> layer_entries() {
  return {
      KB_ENTRY("Linear", g.linear()(g.tensor())),
      KB_ENTRY("Linear made", layer(g, nn::Linear(g.torch, g.size(), g.size(), kModulesOnOnePe))),
      KB_ENTRY("Embedding", layer(g, nn::Embedding(g.torch, g.size(), g.size(), kModulesOnOnePe))),
      KB_ENTRY("LayerNorm", layer(g, nn::LayerNorm(g.torch, g.size(), kModulesOnOnePe))),
      KB_ENTRY("Dropout", layer(g, nn::Dropout(g.number()))),
      KB_ENTRY("Sequential", layer(g, nn::Sequential(g.linear(), nn::ReLU(), g.linear()))),
      KB_ENTRY("CrossEntropyLoss", nn::CrossEntropyLoss()(g.tensor(), g.tensor())),
      KB_ENTRY("register_parameter",
               [&] {
                 const auto module = std::make_shared<OwnModule>();
                 module->register_parameter(g.flag() ? "w" : "", g.tensor(), g.flag());
                 module->register_buffer(g.flag() ? "w" : "b", g.tensor());
                 look_at(module->parameters());
                 look_at(module->buffers());
                 module->to(g.dtype());
                 module->load_state_dict(module->state_dict());
                 module->zero_grad();
               }()),
      KB_ENTRY("register_module",
               [&] {
                 const auto module = std::make_shared<OwnModule>();
                 module->register_module("a", g.linear());
                 module->register_module(g.flag() ? "a" : "b", g.linear());
                 look_at(module->parameters());
               }()),
      KB_ENTRY("load_state_dict",
               [&] {
                 nn::Linear(g.torch, 3, 2, kModulesOnOnePe)
                     ->load_state_dict(state(g).tensors, {g.flag()});
               }()),
      KB_ENTRY("Module::to",
               nn::Linear(g.torch, 3, 2, kModulesOnOnePe)->to(g.flag() ? "ahbm:7" : "cpu")),
      KB_ENTRY("forward hooks",
               [&] {
                 const nn::Linear linear(g.torch, 3, 2, kModulesOnOnePe);
                 const Tensor other = g.tensor();
                 linear->register_forward_pre_hook(
                     [&](auto&, auto& x) { return g.flag() ? x : other; });
                 linear->register_forward_hook([&](auto&, auto&, auto&) { return other; });
                 look_at(linear(g.tensor()));
               }()),
      KB_ENTRY("init::uniform_", nn::init::uniform_(g.tensor().detach(), g.number(), g.number())),
      KB_ENTRY("init::eye_", nn::init::eye_(g.tensor().detach())),
      KB_ENTRY("init::xavier_normal_", nn::init::xavier_normal_(g.tensor().detach(), g.number())),
      KB_ENTRY("save and load", save_and_load(g)),
      KB_ENTRY("load of nothing", nn::load(g.flag() ? "" : "/nowhere/at/all")),
  };
}

std::vector<Entry> parallel_entries() {
  using nn::parallel::DistributedDataParallel;
  return {
      KB_ENTRY("DistributedDataParallel",
               [&] {
                 DistributedDataParallel<nn::Linear> ddp(g.linear(), {.process_group = g.group()});
                 const Tensor y = ddp(g.tensor());
                 y.sum().backward();
               }()),
      KB_ENTRY("fully_shard",
               [&] {
                 const nn::Linear linear =
                     g.flag() ? nn::Linear(g.torch, 3, 2, kModulesOnOnePe) : g.linear();
                 distributed::fsdp::fully_shard(linear, {.ignored_params = g.tensors()});
                 look_at(linear(g.tensor()));
               }()),
      KB_ENTRY("ColumnParallelLinear",
               [&] {
                 const tp::ColumnParallelLinear column(g.torch,
                                                       {.in_features = 3, .out_features = 4});
                 look_at(column.forward(g.tensor(), g.tensor()));
               }()),
      KB_ENTRY("RowParallelLinear",
               [&] {
                 const tp::RowParallelLinear row(
                     g.torch, {.in_features = 6, .out_features = 2, .input_is_parallel = g.flag()});
                 look_at(row.forward(g.tensor()));
               }()),
      KB_ENTRY("vocab_parallel_cross_entropy",
               tp::vocab_parallel_cross_entropy(g.torch, g.tensor(), g.tensor())),
      KB_ENTRY("copy_to_tensor_model_parallel_region",
               tp::copy_to_tensor_model_parallel_region(g.torch, g.tensor())),
      KB_ENTRY("reduce_from_tensor_model_parallel_region",
               tp::reduce_from_tensor_model_parallel_region(g.torch, g.tensor())),
      KB_ENTRY("scatter_to_sequence_parallel_region",
               tp::scatter_to_sequence_parallel_region(g.torch, g.tensor())),
      KB_ENTRY("gather_from_tensor_model_parallel_region",
               tp::gather_from_tensor_model_parallel_region(g.torch, g.tensor())),
  };
}

}  // namespace

std::vector<Entry> module_entries() {
  std::vector<Entry> entries = optimizer_entries();
  std::ranges::copy(layer_entries(), std::back_inserter(entries));
  std::ranges::copy(parallel_entries(), std::back_inserter(entries));
  return entries;
}

}  // namespace kernbench::test::wrong_objects
