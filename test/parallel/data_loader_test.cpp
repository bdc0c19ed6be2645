// torch.utils.data: orders of samples, batches, and a training loop on several ranks.

#include "runtime/data/data_loader.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "runtime/optim/optimizer.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::data_loader_test {
namespace {

using namespace utils::data;
using Indices = std::vector<std::int64_t>;

std::vector<Indices> parts(const RuntimeContext& torch, std::int64_t count, int ranks,
                           DistributedSamplerOptions options) {
  std::vector<Indices> all;
  options.num_replicas = ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    options.rank = rank;
    DistributedSampler sampler(torch, count, options);
    all.push_back(sampler.indices());
    CHECK(static_cast<std::int64_t>(all.back().size()) == sampler.size());
  }
  return all;
}

Indices in_order(std::int64_t count) {
  Indices indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

Indices sorted(Indices indices) {
  std::ranges::sort(indices);
  return indices;
}

// The lists are those of torch 1.13.1's DistributedSampler.
TEST_CASE("ranks get the samples that torch gives them", "[data]") {
  const DataParallelWorld world(1);
  const DistributedSamplerOptions keep{.shuffle = false};
  const DistributedSamplerOptions drop{.shuffle = false, .drop_last = true};
  CHECK(parts(world.torch, 10, 4, keep) ==
        std::vector<Indices>{{0, 4, 8}, {1, 5, 9}, {2, 6, 0}, {3, 7, 1}});
  CHECK(parts(world.torch, 10, 4, drop) == std::vector<Indices>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(parts(world.torch, 3, 8, keep) ==
        std::vector<Indices>{{0}, {1}, {2}, {0}, {1}, {2}, {0}, {1}});
  CHECK(parts(world.torch, 3, 8, drop) == std::vector<Indices>(8));
  CHECK(parts(world.torch, 0, 2, keep) == std::vector<Indices>(2));
  CHECK(parts(world.torch, 8, 4, drop) == std::vector<Indices>{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(parts(world.torch, 7, 3, drop) == std::vector<Indices>{{0, 3}, {1, 4}, {2, 5}});
}

TEST_CASE("ranks share one permutation, which the epoch and the seed choose", "[data]") {
  const DataParallelWorld world(1);
  const auto all = parts(world.torch, 100, 4, {});
  Indices joined;
  for (const Indices& part : all) joined.insert(joined.end(), part.begin(), part.end());
  CHECK(joined != sorted(joined));
  CHECK(sorted(joined) == in_order(100));
  DistributedSampler sampler(world.torch, 100, {.num_replicas = 4, .rank = 0});
  const Indices first = sampler.indices();
  CHECK(sampler.indices() == first);
  sampler.set_epoch(1);
  CHECK(sampler.indices() != first);
  CHECK(sampler.indices() == parts(world.torch, 100, 4, {.seed = 1}).front());
  sampler.set_epoch(0);
  CHECK(sampler.indices() == first);
}

TEST_CASE("a random sampler draws from the device's generator", "[data]") {
  DataParallelWorld world(1);
  RandomSampler sampler(world.torch, 50);
  world.torch.manual_seed(7);
  const Indices first = sampler.indices();
  const Indices second = sampler.indices();
  CHECK(sorted(first) == in_order(50));
  CHECK(first != second);
  world.torch.manual_seed(7);
  CHECK(sampler.indices() == first);
  CHECK(sampler.indices() == second);
  const Indices more = RandomSampler(world.torch, 3, {.num_samples = 7}).indices();
  CHECK(more.size() == 7);
  CHECK(sorted({more.begin(), more.begin() + 3}) == in_order(3));
  CHECK(sorted({more.begin() + 3, more.begin() + 6}) == in_order(3));
  const Indices drawn =
      RandomSampler(world.torch, 3, {.replacement = true, .num_samples = 64}).indices();
  CHECK(drawn.size() == 64);
  CHECK(std::ranges::count(drawn, 1) > 8);
  CHECK(std::ranges::max(drawn) == 2);
}

struct Numbers {
  std::int64_t size() const { return 3; }
  std::pair<std::int64_t, double> get(std::int64_t i) const { return {i, 0.5 * double(i)}; }
};

TEST_CASE("batches are stacked samples on the caller's device", "[data]") {
  DataParallelWorld world(1);
  const TensorDataset data(RuntimeContext::tensor({{0, 1}, {2, 3}, {4, 5}}),
                           RuntimeContext::tensor(Indices{7, 8, 9}, {3}));
  const DataLoader loader(world.torch, data, {.batch_size = 2});
  CHECK(loader.size() == 2);
  CHECK(DataLoader(world.torch, data, {.batch_size = 2, .drop_last = true}).size() == 1);
  std::vector<Floats> inputs;
  std::vector<Indices> targets;
  for (const auto& [x, y] : loader) {
    CHECK_FALSE(x.is_host());
    CHECK(y.dtype() == DType::i64);
    CHECK(x.shape() == Shape{y.size(0), 2});
    inputs.push_back(x.to_vector());
    targets.push_back(y.to_vector<std::int64_t>());
  }
  CHECK(inputs == std::vector<Floats>{{0, 1, 2, 3}, {4, 5}});
  CHECK(targets == std::vector<Indices>{{7, 8}, {9}});
  for (const auto& [number, half] : DataLoader(world.torch, Numbers(), {.batch_size = 3})) {
    CHECK(number.dtype() == DType::i64);
    CHECK(number.to_vector() == Floats{0, 1, 2});
    CHECK(half.to_vector() == Floats{0, 0.5, 1});
  }
  for (const auto& [x] :
       DataLoader(world.torch, TensorDataset(RuntimeContext::tensor({1, 2})), {.device = "cpu"})) {
    CHECK(x.is_host());
  }
  for (const auto& [x] :
       DataLoader(world.torch, TensorDataset(world.tensor({1, 2}, {2, 1})), {.batch_size = 2})) {
    CHECK(x.to_vector() == Floats{1, 2});  // of rows on the device
  }
}

TEST_CASE("a batch takes as long as its copy over the host link", "[data]") {
  DataParallelWorld world(1);
  const Tensor rows = RuntimeContext::tensor(Floats(64 * 256, 1), {64, 256});
  const auto took = [&](const auto& action) {
    const Time before = world.torch.engine().now();
    action();
    return world.torch.engine().now() - before;
  };
  const Tensor target = world.torch.empty({64, 256});
  const Time copy = took([&] { target.copy_(rows); });
  CHECK(copy > Time{0});
  const DataLoader loader(world.torch, TensorDataset(rows), {.batch_size = 64});
  CHECK(took([&] {
          for (const auto& [x] : loader) CHECK(x.shape() == Shape{64, 256});
        }) == copy);
}

TEST_CASE("wrong data and options are refused", "[data]") {
  DataParallelWorld world(2);
  RuntimeContext& torch = world.torch;
  const TensorDataset data(RuntimeContext::tensor({1, 2, 3}));
  const auto refusal = [](const auto& action) { return error_of<CollectiveError>(action); };
  const auto of_loader = [&](const DataLoaderOptions& options) {
    return refusal([&] {
      for (const auto& batch : DataLoader(torch, data, options)) CHECK(batch[0].defined());
    });
  };
  CHECK_THAT(
      of_loader({.batch_size = 0}),
      Catch::Contains("batch_size should be a positive integer value, but got batch_size=0"));
  CHECK_THAT(of_loader({.batch_size = -1}), Catch::Contains("got batch_size=-1"));
  SequentialSampler longer(5);
  CHECK_THAT(of_loader({.shuffle = true, .sampler = &longer}),
             Catch::Contains("sampler option is mutually exclusive with shuffle"));
  CHECK_THAT(of_loader({.batch_size = 4, .sampler = &longer}),
             Catch::Contains("index 3 is out of bounds for dimension 0 with size 3"));
  CHECK_THAT(refusal([&] { RandomSampler(torch, 0); }), Catch::Contains("got num_samples=0"));
  CHECK_THAT(refusal([&] { RandomSampler(torch, 3, {.num_samples = -2}); }),
             Catch::Contains("got num_samples=-2"));
  CHECK_THAT(refusal([&] { SequentialSampler(-1); }), Catch::Contains("a dataset of -1 samples"));
  const auto of_rank = [&](int rank, int replicas) {
    return refusal([&] { DistributedSampler(torch, 3, {.num_replicas = replicas, .rank = rank}); });
  };
  CHECK_THAT(of_rank(2, 2),
             Catch::Contains("Invalid rank 2, rank should be in the interval [0, 1]"));
  CHECK_THAT(of_rank(-1, 2), Catch::Contains("Invalid rank -1"));
  CHECK_THAT(of_rank(0, 0), Catch::Contains("[0, -1]"));
  CHECK_THAT(refusal([&] { DistributedSampler(torch, 3).set_epoch(-5); }),
             Catch::Contains("epoch -5 is negative"));
  CHECK_THAT(refusal([&] {
               TensorDataset(RuntimeContext::tensor({1, 2}), RuntimeContext::tensor({1, 2, 3}));
             }),
             Catch::Contains("Size mismatch between tensors"));
  CHECK_THAT(refusal([&] { const TensorDataset none{Tensor()}; }), Catch::Contains("has no rows"));
}

// A model's parameters after one epoch: whole numbers and halves, whose sums are exact.
std::vector<Floats> train(RuntimeContext& torch, Sampler* sampler, std::int64_t batch_size,
                          bool is_distributed) {
  const nn::Sequential model = two_layers(torch, 4);
  const TensorDataset data(
      RuntimeContext::tensor(batch_rows(0, kBatchRows, 1), {kBatchRows, kBatchColumns}),
      RuntimeContext::tensor(batch_rows(0, kBatchRows, 2), {kBatchRows, kBatchColumns}));
  const DataLoader loader(
      torch, data, {.batch_size = batch_size, .sampler = sampler, .dp = DPPolicy::on_one_pe()});
  optim::SGD optimizer(model->parameters(), 0.5);
  const auto step = [&](const auto& forward) {
    for (const auto& [x, y] : loader) {
      optimizer.zero_grad();
      nn::functional::mse_loss(forward(x), y).backward();
      optimizer.step();
    }
  };
  if (is_distributed) {
    const nn::parallel::DistributedDataParallel ddp(model);
    step(ddp);
  } else {
    step(model);
  }
  std::vector<Floats> all;
  for (const Tensor& parameter : model->parameters()) all.push_back(parameter.to_vector());
  return all;
}

// Each step, four ranks have samples 0 to 7, or 8 to 15, which one process has in one batch.
TEST_CASE("a training loop on four ranks computes what one process does", "[data]") {
  for (const char* backend : {"local", "ahbm"}) {
    CAPTURE(backend);
    DataParallelWorld alone(1, backend);
    const std::vector<Floats> expected = train(alone.torch, nullptr, 8, false);
    DataParallelWorld world(4, backend);
    world.spawn([&](int) {
      DistributedSampler sampler(world.torch, kBatchRows, {.shuffle = false});
      const std::vector<Floats> trained = train(world.torch, &sampler, 2, true);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        REQUIRE(trained[i].size() == expected[i].size());
        for (std::size_t j = 0; j < expected[i].size(); ++j) {
          CHECK(trained[i][j] == Approx(expected[i][j]).epsilon(1e-6).margin(1e-6));
        }
      }
    });
  }
}

}  // namespace
}  // namespace kernbench::test::data_loader_test
