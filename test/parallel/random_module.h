// Random models with random hooks, and random ways to train them on several ranks.  All numbers are
// small and dyadic, so that sums are exact in any order.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "test/parallel/data_parallel_world.h"
#include "tp/distributed_data_parallel.h"
#include "tp/layers.h"
#include "tp/parallel_state.h"

namespace kernbench::test::random_modules {

using Random = std::mt19937;

inline int below(Random& random, int count) {
  return static_cast<int>(random() % static_cast<unsigned>(count));
}
inline bool coin(Random& random) {
  return below(random, 2) == 0;
}
template <class T>
T one_of(Random& random, const std::vector<T>& all) {
  return all[random() % all.size()];
}
// Mostly 1, which stands for no hook.  A fraction would cost a bit of those that f32 has.
inline double factor(Random& random) {
  return one_of<double>(random, {1, 1, 1, 2, -1});
}

inline constexpr std::int64_t kColumns = 4;
inline constexpr double kRate = 0.125;
inline constexpr int kMostParameters = 20;

// A column parallel layer is followed by a row parallel one.
enum class Kind { linear, relu, norm, tensor_parallel };
enum class Scheme { ddp, zero1, fully_shard };
enum class Spare { none, never, always, at_random };  // when the model's second branch is used
enum class CommHook { none, of_torch, own };

struct Layer {
  Kind kind = Kind::linear;
  std::int64_t in = kColumns;
  std::int64_t out = kColumns;
  // Hooks multiply with these factors.
  double input = 1;
  double output = 1;
  double gradient = 1;  // of the output
};

struct Program {
  unsigned seed = 0;
  int ranks = 1;
  int steps = 2;
  int passes = 1;         // in a step, of which the last one sends gradients
  std::int64_t rows = 1;  // of a rank in a pass
  std::vector<Layer> layers;
  std::vector<double> gradients;  // what hooks of the parameters multiply with
  Scheme scheme = Scheme::ddp;
  nn::parallel::DistributedDataParallelOptions ddp;
  tp::DistributedDataParallelConfig zero1;
  CommHook comm_hook = CommHook::none;
  Spare spare = Spare::none;
  bool hsdp = false;
  int groups = 1;            // of `ranks` each, which all learn the same
  bool checkpoints = false;  // computes layers again in the backward pass
  bool is_mixed = false;     // parameters are gathered in f16
  const char* backend = "local";
  RuntimeOptions options;

  bool uses_spare(int step, int pass, int rank) const {
    if (spare != Spare::at_random) return spare == Spare::always;
    const auto place = static_cast<unsigned>((step * passes + pass) * ranks + rank);
    Random random(seed * 1000 + place);
    return below(random, 3) == 0;
  }
  int world() const { return ranks * groups; }
  bool is_tensor_parallel() const {
    return std::ranges::count(layers, Kind::tensor_parallel, &Layer::kind) > 0;
  }
  // True if groups lie across those of tensor parallel ranks, of which there are as many as groups.
  bool has_parallel_state() const { return scheme == Scheme::zero1 || is_tensor_parallel(); }
  // A rank's number in its group.
  int place_of(int rank) const { return has_parallel_state() ? rank / groups : rank % ranks; }
  bool is_of_first_group(int rank) const {
    return has_parallel_state() ? rank % groups == 0 : rank < ranks;
  }
  int depth() const {
    int depth = 0;
    for (const Layer& layer : layers) {
      depth += layer.kind == Kind::relu ? 0 : layer.kind == Kind::tensor_parallel ? 2 : 1;
    }
    return depth;
  }
  bool has_norm() const { return layers.front().kind == Kind::norm; }
  std::int64_t outputs() const { return layers.back().out; }
};

// A norm comes first: of other rows than rows_to_normalize() its results would be rounded.
inline void draw_layers(Random& random, Program& program) {
  const int count = 1 + below(random, 4);
  for (int i = 0; i < count; ++i) {
    Layer layer;
    if (i > 0) layer.in = layer.out = program.outputs();
    layer.kind = i == 0 ? one_of<Kind>(random, {Kind::linear, Kind::linear, Kind::norm})
                        : one_of<Kind>(random, {Kind::linear, Kind::relu});
    if (program.depth() < 2 && below(random, 6) == 0) layer.kind = Kind::tensor_parallel;
    if (program.depth() == 3) layer.kind = Kind::relu;
    if (layer.kind == Kind::linear) layer.out = 1 + below(random, 6);
    layer.input = factor(random);
    layer.output = factor(random);
    layer.gradient = factor(random);
    program.layers.push_back(layer);
  }
  // Each step multiplies the bits of the weights by the depth, and f32 has 24.
  program.steps = program.depth() < 2 ? 3 : 2;
  if (program.depth() == 3) program.rows = program.passes = 1;
}

inline void draw_ddp(Random& random, Program& program) {
  program.ddp.bucket_cap_mb = one_of<double>(random, {0, 0.00002, 0.0001, 25});
  program.ddp.gradient_as_bucket_view = coin(random);
  program.ddp.static_graph = below(random, 3) == 0;
  program.ddp.find_unused_parameters = coin(random);
  program.comm_hook = one_of<CommHook>(random, {CommHook::none, CommHook::of_torch, CommHook::own});
  if (program.ddp.static_graph) {
    program.spare = one_of<Spare>(random, {Spare::none, Spare::never, Spare::always});
  } else if (program.ddp.find_unused_parameters) {
    program.spare = one_of<Spare>(random, {Spare::never, Spare::at_random, Spare::at_random});
  } else {
    program.spare = one_of<Spare>(random, {Spare::none, Spare::always});
  }
}

inline void draw_zero1(Random& random, Program& program) {
  program.zero1.use_distributed_optimizer = true;
  program.zero1.overlap_grad_reduce = coin(random);
  program.zero1.overlap_param_gather = program.zero1.overlap_grad_reduce && coin(random);
  program.zero1.bucket_size = 1 + below(random, 60);
  program.spare = one_of<Spare>(random, {Spare::none, Spare::always});
}

inline Program random_program(unsigned seed) {
  Random random(seed);
  Program program;
  program.seed = seed;
  program.ranks = 2 + below(random, 3);
  program.passes = 1 + below(random, 3);
  program.rows = 1 + below(random, 3);
  program.scheme = one_of<Scheme>(random, {Scheme::ddp, Scheme::ddp, Scheme::ddp, Scheme::zero1,
                                           Scheme::fully_shard, Scheme::fully_shard});
  draw_layers(random, program);
  for (int i = 0; i < kMostParameters; ++i) program.gradients.push_back(factor(random));
  if (program.scheme == Scheme::ddp) draw_ddp(random, program);
  if (program.scheme == Scheme::zero1) draw_zero1(random, program);
  if (program.scheme == Scheme::fully_shard) {
    program.spare = one_of<Spare>(random, {Spare::none, Spare::always});
    program.hsdp = program.ranks == 4 && coin(random);
    program.gradients.assign(kMostParameters,
                             1);  // parameters() are shards, which no operator has used
  }
  program.backend = coin(random) ? "local" : "ahbm";
  program.options.launch_blocking = coin(random);
  if (coin(random)) program.options.shuffle_ties = seed;
  if (program.ranks == 2 && coin(random)) program.groups = 2;
  // A search for unused parameters does not see through a checkpoint, as in torch.
  program.checkpoints = !program.ddp.find_unused_parameters && below(random, 3) == 0;
  if (program.scheme == Scheme::fully_shard && program.depth() < 3 && below(random, 3) == 0) {
    program.is_mixed = true;
    program.steps = 1;  // f16 has 11 bits
  }
  return program;
}

// -1, 0 and 1.
inline Floats small_numbers(unsigned salt, std::int64_t count) {
  Random random(salt);
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<float>(below(random, 3) - 1));
  }
  return elements;
}

// Rows that a norm makes -1 and 1: two elements lie above their mean and two below, by the same
// power of two.
inline Floats rows_to_normalize(unsigned salt, std::int64_t rows) {
  Random random(salt);
  Floats elements;
  for (std::int64_t i = 0; i < rows; ++i) {
    Floats row{-1, -1, 1, 1};
    std::shuffle(row.begin(), row.end(), random);
    const auto scale = one_of<float>(random, {1, 2, 4});
    const auto mean = static_cast<float>(below(random, 5) - 2);
    for (const float sign : row) elements.push_back(mean + scale * sign);
  }
  return elements;
}

struct Batch {
  Tensor x;
  Tensor y;
};

// Rows of the batch, which is the same in each step.
inline Batch batch(DataParallelWorld& world, const Program& program, std::int64_t first,
                   std::int64_t count) {
  const std::int64_t all = program.ranks * program.passes * program.rows;
  const auto cut = [&](const Floats& elements, std::int64_t columns) {
    const auto begin = elements.begin() + first * columns;
    return world.tensor(Floats(begin, begin + count * columns), {count, columns});
  };
  const unsigned salt = program.seed * 7;
  Tensor x = cut(program.has_norm() ? rows_to_normalize(salt, all) : small_numbers(salt, all * 4),
                 kColumns);
  if (program.checkpoints) x.requires_grad_();  // else no gradient passes a checkpoint
  return {x, cut(small_numbers(salt + 1, all * program.outputs()), program.outputs())};
}

// The same on all ranks.
inline tp::InitMethod whole_weights(unsigned salt) {
  return tp::InitMethod(
      [salt](const Shape& shape, tp::Generator&) { return small_numbers(salt, shape.numel()); });
}

inline bool is_of_tensor_parallel_layer(const std::string& parameter) {
  return parameter.find(".up.") != std::string::npos ||
         parameter.find(".down.") != std::string::npos;
}

struct TensorParallelImpl : nn::Module {
  static constexpr std::int64_t kHidden = 4;

  TensorParallelImpl(RuntimeContext& torch, std::int64_t columns, unsigned salt)
      : up(torch, {.in_features = columns,
                   .out_features = kHidden,
                   .init_method = whole_weights(salt),
                   .dtype = DType::f32}),
        down(torch, {.in_features = kHidden,
                     .out_features = columns,
                     .init_method = whole_weights(salt + 1),
                     .dtype = DType::f32}) {
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(const Tensor& x) const { return down(relu(up(x))); }

  tp::ColumnParallelLinear up;
  tp::RowParallelLinear down;
};
KERNBENCH_MODULE(TensorParallel);

struct NetImpl : nn::Module {
  NetImpl(RuntimeContext& torch, const Program& program) {
    for (const Layer& layer : program.layers) {
      if (layer.kind == Kind::tensor_parallel) {
        layers->push_back(TensorParallel(torch, layer.in, program.seed * 100 + 50));
      } else if (layer.kind == Kind::relu) {
        layers->push_back(nn::ReLU());
      } else if (layer.kind == Kind::norm) {
        layers->push_back(nn::LayerNorm(torch, nn::LayerNormOptions(layer.in).eps(0), kOnOnePe));
      } else {
        layers->push_back(nn::Linear(torch, layer.in, layer.out, kOnOnePe));
      }
    }
    register_module("layers", layers);
    checkpoints = program.checkpoints;
    if (program.spare == Spare::none) return;
    spare = register_module("spare", nn::Linear(torch, kColumns, program.outputs(), kOnOnePe));
  }
  Tensor forward(const Tensor& x, bool uses_spare) const {
    const Tensor y =
        checkpoints ? nn::utils::checkpoint([this](const auto& in) { return layers(in[0]); }, {x})
                    : layers(x);
    return uses_spare ? y + spare(x) : y;
  }

  bool checkpoints = false;
  nn::Sequential layers = nn::Sequential(std::make_shared<nn::SequentialImpl>());
  nn::Linear spare = nullptr;
};
KERNBENCH_MODULE(Net);

inline void add_hooks(const Program& program, const Net& net) {
  const auto children = net->layers->children();
  for (std::size_t i = 0; i < children.size(); ++i) {
    const Layer& layer = program.layers[i];
    if (layer.input != 1) {
      children[i]->register_forward_pre_hook(
          [by = layer.input](nn::Module&, const Tensor& input) { return input * by; });
    }
    children[i]->register_forward_hook([layer](nn::Module&, const Tensor&, const Tensor& output) {
      if (layer.gradient != 1 && autograd::needs_grad(output)) {
        output.register_hook([by = layer.gradient](const Tensor& grad) { return grad * by; });
      }
      return layer.output == 1 ? Tensor() : output * layer.output;
    });
  }
  const auto parameters = net->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (program.gradients[i] == 1) continue;
    parameters[i].register_hook([by = program.gradients[i]](const Tensor& g) { return g * by; });
  }
}

// In the net of one rank alone there is one group.
inline Net make_net(DataParallelWorld& world, const Program& program, int groups,
                    unsigned salt = 0) {
  if (program.has_parallel_state()) {
    tp::initialize_model_parallel(world.torch, {.tensor_model_parallel_size = groups});
  }
  Net net(world.torch, program);
  for (const auto& item : net->named_parameters()) {
    if (is_of_tensor_parallel_layer(item.key())) continue;  // which has set it
    const Tensor parameter = item.value();
    const Floats elements = small_numbers(program.seed * 100 + salt++, parameter.numel());
    parameter.detach().copy_(RuntimeContext::tensor(elements, parameter.shape()));
  }
  add_hooks(program, net);
  return net;
}

}  // namespace kernbench::test::random_modules
