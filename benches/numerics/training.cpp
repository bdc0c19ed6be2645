#include "benches/numerics/training.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>

#include "benches/bench/bench_run.h"
#include "benches/bench/table.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/nn/containers.h"
#include "runtime/nn/layers.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/parallel/fully_shard.h"
#include "runtime/parallel/micro_batches.h"
#include "runtime/torch/run_ranks.h"
#include "sim_engine/base/enum_names.h"
#include "tp/layers.h"

namespace kernbench::benches::numerics {

namespace {

constexpr int kSteps = 3;
constexpr std::int64_t kSamples = 16;  // of a step, over all ranks
constexpr std::int64_t kTokens = 16;   // of a sample
constexpr std::int64_t kHeads = 16;
constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kWords = 64;
const TensorOptions kOnePe{.dtype = DType::f32, .dp = DPPolicy::on_one_pe()};

// A rank's model: a backward pass over the words of a step, and the loss of some samples.
struct Model {
  std::function<void(const Tensor& words, const Tensor& targets)> backward;
  std::function<Tensor(const Tensor& words, const Tensor& targets)> loss;
  std::vector<Tensor> parameters;
  std::shared_ptr<void> owned;
};

// Mixes tokens: qkv is [b, s, 3 h / W] with q, k and v side by side in each head, the result [b, s,
// h / W].
Tensor attend(const Tensor& qkv) {
  const Tensor all =
      reshape(qkv, {-1, kTokens, qkv.size(-1) / (3 * kWidth / kHeads), 3, kWidth / kHeads});
  const auto part = [&](std::int64_t i) {
    return contiguous(permute(select(all, 3, i), {0, 2, 1, 3}));
  };
  const Tensor y =
      nn::functional::scaled_dot_product_attention(part(0), part(1), part(2), {.is_causal = true});
  return reshape(contiguous(permute(y, {0, 2, 1, 3})), {-1, kTokens, qkv.size(-1) / 3});
}

Tensor loss_of(const Tensor& logits, const Tensor& targets) {
  return nn::functional::cross_entropy(reshape(logits, {-1, kWords}),
                                       reshape(contiguous(targets), {-1}));
}

nn::Sequential make_transformer(const RuntimeContext& torch) {
  return nn::Sequential(nn::Embedding(torch, kWords, kWidth, kOnePe),
                        nn::Linear(torch, kWidth, 3 * kWidth, kOnePe), nn::Functional(attend),
                        nn::LayerNorm(torch, nn::LayerNormOptions(kWidth), kOnePe),
                        nn::Linear(torch, kWidth, 4 * kWidth, kOnePe), nn::GELU(),
                        nn::Linear(torch, 4 * kWidth, kWords, kOnePe));
}

// Samples are cut over ranks; with fixed bits in micro-batches.
Model make_replica(RuntimeContext& torch, Scheme scheme, bool is_fixed, int rank, int ranks) {
  using Ddp = nn::parallel::DistributedDataParallel<nn::Sequential>;
  const nn::Sequential net = make_transformer(torch);
  const std::vector<Tensor> whole = net->parameters();
  std::shared_ptr<Ddp> ddp;
  if (scheme == Scheme::ddp) {
    ddp = std::make_shared<Ddp>(net);
  } else {
    distributed::fsdp::fully_shard(net);
  }
  const auto forward = [net, ddp](const Tensor& words) { return ddp ? (*ddp)(words) : net(words); };
  std::shared_ptr<nn::parallel::MicroBatches> micro;
  if (is_fixed) micro = std::make_shared<nn::parallel::MicroBatches>(torch);
  const std::vector<Tensor> parameters = net->parameters();
  const auto backward = [=](const Tensor& words, const Tensor& targets) {
    if (!micro) {
      const std::int64_t count = kSamples / ranks;
      const auto own = [&](const Tensor& of) { return narrow(of, 0, rank * count, count); };
      return loss_of(forward(own(words)), own(targets)).backward();
    }
    for (int round = 0; round < micro->rounds(); ++round) {
      loss_of(forward(micro->of(words, round)), micro->of(targets, round)).backward();
      micro->take(parameters);
    }
  };
  return {backward,
          [forward](const Tensor& words, const Tensor& targets) {
            return loss_of(forward(words), targets);
          },
          parameters, ddp};
}

// Layers are cut over ranks; with fixed bits in blocks.
struct ParallelLayers {
  tp::VocabParallelEmbedding embedding;
  tp::ColumnParallelLinear qkv;
  tp::RowParallelLinear projection;
  nn::LayerNorm norm;
  tp::ColumnParallelLinear up;
  tp::RowParallelLinear down;

  explicit ParallelLayers(RuntimeContext& torch)
      : embedding(torch, {.num_embeddings = kWords, .embedding_dim = kWidth, .dtype = DType::f32}),
        qkv(torch, {.in_features = kWidth, .out_features = 3 * kWidth, .dtype = DType::f32}),
        projection(torch, {.in_features = kWidth, .out_features = kWidth, .dtype = DType::f32}),
        norm(torch, nn::LayerNormOptions(kWidth), kOnePe),
        up(torch, {.in_features = kWidth, .out_features = 4 * kWidth, .dtype = DType::f32}),
        down(torch, {.in_features = 4 * kWidth, .out_features = kWords, .dtype = DType::f32}) {}
};

Model make_parallel_layers(RuntimeContext& torch) {
  const auto layers = std::make_shared<ParallelLayers>(torch);
  const auto loss = [layers](const Tensor& words, const Tensor& targets) {
    const Tensor mixed = layers->projection(attend(layers->qkv(layers->embedding(words))));
    return loss_of(layers->down(gelu(layers->up(layers->norm(mixed)))), targets);
  };
  std::vector<Tensor> parameters = layers->norm->parameters();
  for (const tp::ParallelLayer* const layer : std::initializer_list<const tp::ParallelLayer*>{
           &layers->embedding, &layers->qkv, &layers->projection, &layers->up, &layers->down}) {
    const auto own = layer->parameters();
    parameters.insert(parameters.end(), own.begin(), own.end());
  }
  return {[loss](const Tensor& words, const Tensor& targets) { loss(words, targets).backward(); },
          loss, parameters, layers};
}

// The words of so many samples, from the given one of a fixed text on.
Tensor words_from(RuntimeContext& torch, std::int64_t first, std::int64_t samples) {
  std::vector<std::int64_t> words;
  for (std::int64_t i = first; i < first + samples * kTokens; ++i) {
    words.push_back((5 * i * i + 3 * i) % kWords);
  }
  return torch.tensor(words, {samples, kTokens}, {.dp = DPPolicy::on_one_pe()});
}

struct Trained {
  Time step{0};    // the last one, of the slowest rank
  float loss = 0;  // of the first sample, after all steps
};

Trained train(PointContext& point, const Topology& topology, Scheme scheme, bool is_fixed) {
  const auto torch = point.make_context(
      topology, {.reproducible = is_fixed ? Reproducible::pairs : Reproducible::run});
  const int ranks = topology.system.sip_count;
  torch->distributed.init_process_group("ahbm");
  if (scheme == Scheme::tp) {
    tp::initialize_model_parallel(*torch, {.tensor_model_parallel_size = ranks});
  }
  Trained trained;
  Time begun{0};
  Time ended{0};
  run_on_devices(*torch, ranks, [&](int rank) {
    torch->manual_seed(point.bench().seed());
    Model model = scheme == Scheme::tp ? make_parallel_layers(*torch)
                                       : make_replica(*torch, scheme, is_fixed, rank, ranks);
    optim::AdamW optimizer(model.parameters, 0.01);
    const Tensor words = words_from(*torch, 0, kSamples);
    const Tensor targets = words_from(*torch, 1, kSamples);
    for (int step = 0; step < kSteps; ++step) {
      torch->ahbm.synchronize();
      torch->distributed.barrier();
      begun = torch->engine().now();
      optimizer.zero_grad();
      model.backward(words, targets);
      optimizer.step();
      torch->ahbm.synchronize();
      ended = std::max(ended, torch->engine().now());
    }
    const float loss = model.loss(words_from(*torch, 0, 1), words_from(*torch, 1, 1)).item<float>();
    if (rank == 0) trained.loss = loss;
  });
  trained.step = ended - begun;
  return trained;
}

constexpr std::array kTrainingColumns = {
    TableColumn{"training", "", -9, "training"},
    TableColumn{"ranks", "", 6, "ranks"},
    TableColumn{"usual", "(us)", 11, "usual_us", 1, 1},
    TableColumn{"loss", "", 13, "usual_loss", 1, 9},
    TableColumn{"same bits", "(us)", 11, "fixed_us", 1, 1},
    TableColumn{"loss", "", 13, "fixed_loss", 1, 9},
    TableColumn{"of usual", "", 9, "slower", 1, 2},
    TableColumn{"#wrong", "", 7, "wrong"},
};

}  // namespace

std::string_view name_of(Scheme scheme) {
  constexpr std::array<std::string_view, 3> kNames = {"ddp", "fsdp2", "tp"};
  return name_in(kNames, scheme);
}

bool is_world_of_training(std::int64_t ranks) {
  return ranks >= 1 && ranks <= kSamples && kSamples % ranks == 0;
}

std::vector<Row> run_training(PointContext& point, const std::vector<Topology>& topologies,
                              Scheme scheme) {
  std::vector<Row> rows;
  std::optional<float> loss;
  for (const Topology& topology : topologies) {
    const Trained usual = train(point, topology, scheme, false);
    const Trained fixed = train(point, topology, scheme, true);
    if (!loss) loss = fixed.loss;
    const bool is_same = fixed.loss == *loss;
    point.check(is_same && std::isfinite(fixed.loss));
    rows.push_back(
        Row()
            .set("training", name_of(scheme))
            .set("ranks", topology.system.sip_count)
            .set("usual_us", to_ns(usual.step) / 1e3)
            .set("usual_loss", usual.loss)
            .set("fixed_us", to_ns(fixed.step) / 1e3)
            .set("fixed_loss", fixed.loss)
            .set("slower", usual.step > Time{0} ? to_ns(fixed.step) / to_ns(usual.step) : 1)
            .set("wrong", is_same ? 0 : 1));
  }
  return rows;
}

void print_training(Bench& bench, const std::vector<Row>& rows) {
  bench.print(
      "#\n#   A training step on one PE of each rank, as usual, and so that its bits are the same "
      "on "
      "any number of\n#   ranks: in 16 micro-batches or blocks, and ranks added in pairs.  loss: "
      "of "
      "one sample, after 3 steps\n#\n" +
      table_head(kTrainingColumns));
  for (const Row& row : rows) bench.print(table_line(kTrainingColumns, row, bench.run().console));
}

}  // namespace kernbench::benches::numerics
