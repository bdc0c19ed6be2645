// The orders of samples.

#include <fmt/format.h>

#include <numeric>

#include "runtime/data/data_loader.h"
#include "runtime/random/generator.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"

namespace kernbench::utils::data {

namespace {

// A whole number below `end`, from two of the draw's numbers.
std::int64_t draw_below(const random::Draw& draw, std::int64_t number, std::int64_t end) {
  const std::uint64_t bits =
      std::uint64_t{draw.bits(2 * number)} << 32 | std::uint64_t{draw.bits(2 * number + 1)};
  const UnsignedWide product = UnsignedWide{bits} * static_cast<std::uint64_t>(end);
  return static_cast<std::int64_t>(product >> 64);
}

std::vector<std::int64_t> in_order(std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return indices;
}

// Fisher and Yates: every order is equally likely.
std::vector<std::int64_t> shuffled(const random::Draw& draw, std::int64_t count) {
  std::vector<std::int64_t> indices = in_order(count);
  for (std::int64_t left = count; left > 1; --left) {
    std::swap(indices[static_cast<std::size_t>(left - 1)],
              indices[static_cast<std::size_t>(draw_below(draw, left, left))]);
  }
  return indices;
}

void append(std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from,
            std::int64_t most) {
  const auto count = std::min(static_cast<std::int64_t>(from.size()), most);
  to.insert(to.end(), from.begin(), from.begin() + count);
}

}  // namespace

DatasetSize::DatasetSize(std::int64_t its_count) : count(its_count) {
  if (count >= 0) return;
  throw CollectiveError("KB-C020", "a dataset of {} samples; at least 0", count);
}

std::vector<std::int64_t> SequentialSampler::indices() {
  return in_order(count_);
}

RandomSampler::RandomSampler(RuntimeContext& torch, DatasetSize dataset,
                             const RandomSamplerOptions& options)
    : torch_(torch), count_(dataset.count), options_(options) {
  if (size() > 0 && count_ > 0) return;
  throw CollectiveError("KB-C020",
                        "num_samples should be a positive integer value, but got num_samples={}: "
                        "of a dataset of {} samples",
                        size(), count_);
}

std::vector<std::int64_t> RandomSampler::indices() {
  runtime::Simulation& simulation = simulation_of(torch_);
  random::Generator& generator = random::Generator::of(simulation, simulation.local().device);
  std::vector<std::int64_t> all;
  if (options_.replacement) {
    const random::Draw draw = generator.draw();
    for (std::int64_t i = 0; i < size(); ++i) all.push_back(draw_below(draw, i, count_));
    return all;
  }
  for (std::int64_t left = size(); left > 0; left -= count_) {
    append(all, shuffled(generator.draw(), count_), left);
  }
  return all;
}

DistributedSampler::DistributedSampler(const RuntimeContext& torch, DatasetSize dataset,
                                       const DistributedSamplerOptions& options)
    : count_(dataset.count),
      replicas_(options.num_replicas ? *options.num_replicas : torch.distributed.get_world_size()),
      rank_(options.rank ? *options.rank : torch.distributed.get_rank()),
      options_(options) {
  if (rank_ < 0 || rank_ >= replicas_) {
    throw CollectiveError("KB-C020", "Invalid rank {}, rank should be in the interval [0, {}]",
                          rank_, replicas_ - 1);
  }
  num_samples_ = (count_ + (options_.drop_last ? 0 : replicas_ - 1)) / replicas_;
}

std::vector<std::int64_t> DistributedSampler::indices() {
  // The seed and the epoch count alike, as in torch: epoch 1 of seed 0 is epoch 0 of seed 1.
  const random::Draw draw(options_.seed + static_cast<std::uint64_t>(epoch_), 0);
  const std::vector<std::int64_t> all =
      options_.shuffle ? shuffled(draw, count_) : in_order(count_);
  std::vector<std::int64_t> own;
  for (std::int64_t i = 0; i < num_samples_; ++i) {
    own.push_back(all[static_cast<std::size_t>((rank_ + i * replicas_) % count_)]);
  }
  return own;
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  if (epoch < 0) {
    throw CollectiveError("KB-C020", "DistributedSampler.set_epoch: epoch {} is negative", epoch);
  }
  epoch_ = epoch;
}

}  // namespace kernbench::utils::data
