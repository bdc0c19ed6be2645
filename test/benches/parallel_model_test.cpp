// The language models that tensor parallel ranks share, on all PEs of their devices, beside the
// same models on one rank.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "benches/train/language_model.h"
#include "benches/train/parallel_language_model.h"
#include "benches/train/used_pes.h"
#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/nn/module.h"
#include "runtime/optim/optimizer.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/distributed_data_parallel.h"
#include "tp/layers.h"
#include "tp/parameter.h"

namespace kernbench::test::parallel_model_test {
namespace {

using benches::train::LanguageModel;
using benches::train::LanguageModelSize;
using benches::train::ModelKind;
using benches::train::parallel_loss;
using benches::train::ParallelOptions;

constexpr LanguageModelSize kSize{
    .layers = 2, .hidden = 16, .heads = 4, .ffn = 24, .vocab = 512, .seq = 16, .batch = 2};
constexpr benches::train::UsedPes kPes{2, 2};
constexpr double kRate = 0.125;  // of SGD

// Two models differ by the order of sums of f32: of up to 512 words in the loss, 32 tokens or 24
// features elsewhere, through 2 layers of about 10 operators forward and backward.  Each adds at
// most 2^-24 of the largest of what it sums for each of its terms.
const double kBound = std::ldexp(1.0, -24) * (512 + 2 * 2 * 10 * 32);

Matrix matrix_of(const Tensor& x) {
  const bool is_matrix = x.dim() == 2;
  return {is_matrix ? x.size(0) : 1, x.size(-1), x.to_vector()};
}

Floats tokens() {
  Floats words;
  for (std::int64_t i = 0; i < kSize.tokens(); ++i) {
    words.push_back(static_cast<float>(i * 37 % kSize.vocab));
  }
  return words;
}

// The results of one rank, which has the whole model.
struct Dense {
  std::map<std::string, Matrix> weights;
  std::map<std::string, Matrix> gradients;
  double loss = 0;

  double norm() const {
    double squares = 0;
    for (const auto& [name, gradient] : gradients) {
      for (const float g : gradient.elements) squares += static_cast<double>(g) * g;
    }
    return std::sqrt(squares);
  }
};

Dense run_dense(ModelKind kind) {
  Dense dense;
  TensorParallelWorld world(round_topology(SipTopology::ring_1d, 1, 1, kPes.cubes, 1),
                            {.backend = "local"});
  world.spawn([&](int) {
    const TensorOptions on{.dp = kPes.weights()};
    const LanguageModel model = kind == ModelKind::gpt ? make_gpt(world.torch, kSize, on)
                                                       : make_llama(world.torch, kSize, on);
    fill_weights(model);
    const Tensor ids = world.tensor(tokens(), {kSize.tokens()}, {.dp = kPes.tokens()});
    const Tensor loss = nn::functional::cross_entropy(model.forward(ids), ids);
    loss.backward();
    dense.loss = loss.item<double>();
    for (const auto& item : model.module->named_parameters()) {
      dense.weights.emplace(item.key(), matrix_of(item.value()));
      dense.gradients.emplace(item.key(), matrix_of(item.value().grad()));
    }
  });
  return dense;
}

// The rank's part of what one rank has, under a name of the parallel model.  Layers of one rank
// have [out, in].
class Parts {
 public:
  Parts(const std::map<std::string, Matrix>& whole, ModelKind kind, int rank, int ranks)
      : whole_(whole), is_gpt_(kind == ModelKind::gpt), rank_(rank), ranks_(ranks) {}

  Matrix of(const std::string& name) const {
    const std::size_t dot = name.rfind('.');
    const std::string kind = name.substr(dot);
    const std::size_t before = name.rfind('.', dot - 1);
    const std::string front = before == std::string::npos ? "" : name.substr(0, before + 1);
    const std::string layer = name.substr(front.size(), dot - front.size());
    const auto columns = [&](const char* of_layer) {
      const Matrix& m = whole_.at(front + of_layer + kind);
      return (kind == ".bias" ? m : m.transposed()).columns_of(rank_, ranks_);
    };
    if (layer == "qkv") return side_by_side({columns("q"), columns("k"), columns("v")});
    if (layer == "up" && is_gpt_) return columns("fc1");
    if (layer == "up") return side_by_side({columns("gate"), columns("up")});
    if (layer == "head") return columns("head");
    if (layer == "wte") return whole_.at(name).rows_of(rank_, ranks_);
    const Matrix& m = whole_.at(front + name_in_whole(layer) + kind);
    const bool is_row = layer == "proj" || layer == "down";
    return is_row && kind == ".weight" ? m.transposed().rows_of(rank_, ranks_) : m;
  }

 private:
  static Matrix side_by_side(const std::vector<Matrix>& parts) {
    Matrix joined(0, parts.front().rows);
    for (const Matrix& part : parts) {
      const Matrix turned = part.transposed();
      joined.rows += turned.rows;
      joined.elements.insert(joined.elements.end(), turned.elements.begin(), turned.elements.end());
    }
    return joined.transposed();
  }
  std::string name_in_whole(const std::string& layer) const {
    if (!is_gpt_) return layer;
    if (layer == "norm1") return "ln1";
    if (layer == "norm2") return "ln2";
    if (layer == "norm") return "ln";
    return layer == "down" ? "fc2" : layer;
  }

  const std::map<std::string, Matrix>& whole_;
  const bool is_gpt_;
  const int rank_;
  const int ranks_;
};

// The largest difference, relative to the largest element.
double difference(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
    size =
        std::max({size, std::abs(static_cast<double>(a[i])), std::abs(static_cast<double>(b[i]))});
  }
  return size == 0 ? 0 : most / size;
}

LanguageModel make_filled(RuntimeContext& torch, const Dense& dense, const ParallelOptions& options,
                          int rank, int ranks) {
  LanguageModel model = make_parallel(torch, kSize, {.dp = kPes.weights()}, options);
  const Parts weights(dense.weights, options.model, rank, ranks);
  const NoGradGuard no_grad(torch);
  for (const auto& item : model.module->named_parameters()) {
    const Tensor& weight = item.value();
    weight.copy_(RuntimeContext::tensor(weights.of(item.key()).elements, weight.shape()));
  }
  return model;
}

void check_step(const Dense& dense, const ParallelOptions& options, const std::string& backend,
                int ranks) {
  CAPTURE(backend, ranks, options.sequence_parallel);
  TensorParallelWorld world(
      round_topology(SipTopology::ring_1d, ranks, 1, kPes.cubes, 1),
      {.backend = backend, .parallel = {.tensor_model_parallel_size = ranks}});
  world.spawn([&](int rank) {
    const LanguageModel model = make_filled(world.torch, dense, options, rank, ranks);
    const Tensor ids = world.tensor(tokens(), {kSize.tokens()}, {.dp = kPes.tokens()});
    const Tensor loss = parallel_loss(world.torch, model.forward(ids), ids);
    loss.backward();
    const double found = loss.item<double>();
    CHECK(std::abs(found / dense.loss - 1) <= kBound);
    tp::allreduce_sequence_parallel_gradients(world.torch, tp::parallel_parameters(*model.module));
    const Parts gradients(dense.gradients, options.model, rank, ranks);
    for (const auto& item : model.module->named_parameters()) {
      CAPTURE(item.key());
      const Floats gradient = item.value().grad().to_vector();
      CHECK(difference(gradient, gradients.of(item.key()).elements) <= kBound);
    }
  });
}

TEST_CASE("a model that tensor parallel ranks share has the loss and the gradients of one rank's",
          "[train][tp]") {
  const ModelKind kind = GENERATE(ModelKind::gpt, ModelKind::llama);
  const Dense dense = run_dense(kind);
  for (const bool sequence_parallel : {false, true}) {
    for (const int ranks : {1, 2, 4}) {
      check_step(dense, {.model = kind, .sequence_parallel = sequence_parallel}, "local", ranks);
    }
    check_step(dense, {.model = kind, .sequence_parallel = sequence_parallel}, "ahbm", 4);
  }
}

struct Trained : nn::HolderBase {
  LanguageModel model;

  const std::shared_ptr<nn::Module>& ptr() const { return model.module; }
  Tensor operator()(const Tensor& ids) const { return model.forward(ids); }
};

// All data parallel ranks have the same tokens, so that the mean of their gradients is one rank's.
TEST_CASE("ZeRO-1 on a mesh of 2 x 2 ranks takes the step of one rank", "[train][tp]") {
  const ModelKind kind = GENERATE(ModelKind::gpt, ModelKind::llama);
  const bool sequence_parallel = GENERATE(false, true);
  const Dense dense = run_dense(kind);
  Dense after = dense;
  for (auto& [name, weight] : after.weights) {
    weight = weight.zipped(dense.gradients.at(name),
                           [](float w, float g) { return w - static_cast<float>(kRate) * g; });
  }
  TensorParallelWorld world(round_topology(SipTopology::ring_1d, 4, 1, kPes.cubes, 1),
                            {.backend = "ahbm", .parallel = {.tensor_model_parallel_size = 2}});
  world.spawn([&](int rank) {
    RuntimeContext& torch = world.torch;
    const ParallelOptions options{.model = kind, .sequence_parallel = sequence_parallel};
    const Trained trained{{}, make_filled(torch, dense, options, rank % 2, 2)};
    tp::DistributedDataParallel model(torch, {.use_distributed_optimizer = true}, trained);
    tp::MegatronOptimizer optimizer(torch, model->buckets(), [](std::vector<Tensor> shards) {
      return std::make_unique<optim::SGD>(std::move(shards), kRate);
    });
    const Tensor ids = world.tensor(tokens(), {kSize.tokens()}, {.dp = kPes.tokens()});
    parallel_loss(torch, model(ids), ids).backward();
    tp::finalize_model_grads(model);
    const double norm = optimizer.step().grad_norm;
    CHECK(std::abs(norm / dense.norm() - 1) <= kBound);
    const Parts weights(after.weights, kind, rank % 2, 2);
    for (const auto& item : trained.ptr()->named_parameters()) {
      CAPTURE(item.key());
      const Floats weight = item.value().to_vector();
      CHECK(difference(weight, weights.of(item.key()).elements) <= kBound);
    }
  });
}

TEST_CASE("heads that tensor parallel ranks cannot share are refused", "[train][tp]") {
  CHECK_THAT(error_of<UsageError>([] { check_shares("ddp", kSize, 3, {}); }),
             Says("KB-U012", "tp 3 does not divide heads, which is 4"));
}

}  // namespace
}  // namespace kernbench::test::parallel_model_test
