// Tests that BatchNorm over ranks computes what BatchNorm of the whole batch does, as in torch
// 1.13.1 (its tests DistributedDataParallel_SyncBatchNorm_*).

#include "runtime/nn/convolution.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::sync_batch_norm_test {
namespace {

using nn::parallel::DistributedDataParallel;

constexpr std::int64_t kChannels = 3;
constexpr std::int64_t kLength = 2;

// Rows [first, first + count) of a batch, and of the gradients of its outputs.
Tensor rows(DataParallelWorld& world, std::int64_t first, std::int64_t count, int seed) {
  Floats elements;
  for (std::int64_t i = first * kChannels * kLength; i < (first + count) * kChannels * kLength;
       ++i) {
    elements.push_back(static_cast<float>((i * 7 + i / 5 * 3 + seed) % 9 - 4) / 2);
  }
  return world.tensor(elements, {count, kChannels, kLength});
}

struct Outcome {
  Floats y, dx, weight, bias, mean, variance;
};

template <class Norm>
Outcome train(DataParallelWorld& world, const Norm& norm, std::int64_t first, std::int64_t count) {
  fill_parameters(world.torch, *norm);
  Outcome last;
  for (int i = 0; i < 2; ++i) {
    norm->zero_grad();
    const Tensor x = rows(world, first, count, i).requires_grad_();
    const Tensor y = norm(x);
    (y * rows(world, first, count, 5)).sum().backward();
    last = {y.to_vector(),
            x.grad().to_vector(),
            norm->weight.grad().to_vector(),
            norm->bias.grad().to_vector(),
            norm->running_mean.to_vector(),
            norm->running_var.to_vector()};
  }
  return last;
}

void check_near(const Floats& got, const Floats& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(wanted[i]).margin(2e-5));
}

// The whole batch's parts of 2, 0 and 3 rows.
TEST_CASE("ranks normalize with the statistics of all ranks' batches", "[ddp][norm]") {
  DataParallelWorld world(3, GENERATE("ahbm", "local"));
  const std::vector<std::int64_t> counts{2, 0, 3};
  const std::vector<std::int64_t> firsts{0, 2, 2};
  std::vector<Outcome> outcomes(3);
  Outcome whole;
  const bool converts = GENERATE(false, true);
  world.spawn([&](int rank) {
    const auto i = static_cast<std::size_t>(rank);
    const nn::BatchNorm1d norm(world.torch, kChannels, kOnOnePe);
    if (rank == 0) whole = train(world, nn::BatchNorm1d(world.torch, kChannels, kOnOnePe), 0, 5);
    if (converts) {
      const auto converted = nn::SyncBatchNorm::convert_sync_batchnorm(norm);
      CHECK(converted.ptr() == norm.ptr());
      outcomes[i] = train(world, norm, firsts[i], counts[i]);
    } else {
      outcomes[i] =
          train(world, nn::SyncBatchNorm(world.torch, kChannels, kOnOnePe), firsts[i], counts[i]);
    }
  });
  Floats y, dx, weight(kChannels), bias(kChannels);
  for (const Outcome& of : outcomes) {
    y.insert(y.end(), of.y.begin(), of.y.end());
    dx.insert(dx.end(), of.dx.begin(), of.dx.end());
    check_near(of.mean, whole.mean);
    check_near(of.variance, whole.variance);
    for (std::size_t c = 0; c < weight.size(); ++c) {
      weight[c] += of.weight[c];
      bias[c] += of.bias[c];
    }
  }
  check_near(y, whole.y);
  check_near(dx, whole.dx);
  check_near(weight, whole.weight);
  check_near(bias, whole.bias);
}

TEST_CASE("ranks that evaluate, or are alone in their group, send nothing", "[ddp][norm]") {
  DataParallelWorld world(2);
  world.spawn([&](int rank) {
    const auto mine = world.torch.distributed.new_subgroups(1).first;
    const nn::SyncBatchNorm alone(world.torch, nn::BatchNormOptions(kChannels), mine, kOnOnePe);
    const nn::BatchNorm1d other(world.torch, kChannels, kOnOnePe);
    check_near(train(world, alone, 2 * rank, 2).dx, train(world, other, 2 * rank, 2).dx);
    const nn::SyncBatchNorm norm(world.torch, kChannels, kOnOnePe);
    norm->eval();
    if (rank == 0) CHECK(norm(rows(world, 0, 1, 0)).numel() == kChannels * kLength);
  });
}

TEST_CASE("a wrapped model learns with synchronized norms", "[ddp][norm]") {
  DataParallelWorld world(2);
  std::vector<Floats> gradients(3);
  world.spawn([&](int rank) {
    const auto gradient = [&](auto& model, const nn::BatchNorm1d& norm, std::int64_t first,
                              std::int64_t count) {
      (model(rows(world, first, count, 0)) * rows(world, first, count, 5)).sum().backward();
      return norm->weight.grad().to_vector();
    };
    const nn::BatchNorm1d norm(world.torch, kChannels, kOnOnePe);
    DistributedDataParallel ddp(nn::SyncBatchNorm::convert_sync_batchnorm(norm));
    gradients[static_cast<std::size_t>(rank)] = gradient(ddp, norm, 2 * rank, 2);
    const nn::BatchNorm1d one(world.torch, kChannels, kOnOnePe);
    if (rank == 0) gradients[2] = gradient(one, one, 0, 4);
  });
  for (float& element : gradients[2]) element /= 2;  // the mean over ranks of sums
  check_near(gradients[0], gradients[2]);
  CHECK(gradients[0] == gradients[1]);
}

TEST_CASE("what has no channels is refused in torch's words", "[ddp][norm]") {
  DataParallelWorld world(2);
  CHECK_THAT(world.refusal([&](int) {
    nn::SyncBatchNorm(world.torch, 4, kOnOnePe)(world.torch.ones({4}, kOnOnePe));
  }),
             Says("KB-F001", "expected at least 2D input (got 1D input)"));
}

}  // namespace
}  // namespace kernbench::test::sync_batch_norm_test
