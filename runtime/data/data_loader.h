// torch.utils.data: datasets, the order in which their samples are visited, and batches of them.
//
//   kb::utils::data::TensorDataset data(x, y);                        // of host tensors
//   kb::utils::data::DistributedSampler sampler(torch, data);         // this rank's part
//   kb::utils::data::DataLoader loader(torch, data, {.batch_size = 4, .sampler = &sampler});
//   for (int epoch = 0; epoch < 2; ++epoch) {
//     sampler.set_epoch(epoch);
//     for (const auto& [input, target] : loader) ...
//   }
//
// Errors are CollectiveErrors KB-C020, with torch's words.

#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::utils::data {

template <class D>
concept Sized = requires(const D& dataset) {
  { dataset.size() } -> std::convertible_to<std::size_t>;
};

// Anything with size() and get(i).  A sample is a Tensor, a number, a pair, tuple or array of
// these, or a std::vector<Tensor>.
template <class D>
concept Dataset = Sized<D> && requires(const D& dataset, std::int64_t index) {
  dataset.get(index);
};

// Implicit: a dataset's number of samples, or the number itself, where Python has range(n).
struct DatasetSize {
  // NOLINTBEGIN(google-explicit-constructor)
  DatasetSize(std::int64_t its_count);  // throws if it is negative
  template <Sized D>
  DatasetSize(const D& dataset) : count(static_cast<std::int64_t>(dataset.size())) {}
  // NOLINTEND(google-explicit-constructor)
  std::int64_t count = 0;
};

// The order in which samples are visited.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // The indices of one epoch; each call is another one.
  virtual std::vector<std::int64_t> indices() = 0;
  // How many these are.
  virtual std::int64_t size() const = 0;
};

class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(DatasetSize dataset) : count_(dataset.count) {}
  std::vector<std::int64_t> indices() override;
  std::int64_t size() const override { return count_; }

 private:
  std::int64_t count_;
};

struct RandomSamplerOptions {
  bool replacement = false;
  std::optional<std::int64_t> num_samples = std::nullopt;  // none: the dataset's
};

// Draws from the generator of the caller's device: torch.manual_seed() repeats it, by other numbers
// than torch's.  Throws for a number of samples that is not positive, so for an empty dataset.
class RandomSampler : public Sampler {
 public:
  RandomSampler(RuntimeContext& torch, DatasetSize dataset,
                const RandomSamplerOptions& options = {});
  std::vector<std::int64_t> indices() override;
  std::int64_t size() const override { return options_.num_samples.value_or(count_); }

 private:
  RuntimeContext& torch_;
  std::int64_t count_;
  RandomSamplerOptions options_;
};

struct DistributedSamplerOptions {
  std::optional<int> num_replicas = std::nullopt;  // none: the world size
  std::optional<int> rank = std::nullopt;          // none: the caller's
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on all ranks
  bool drop_last = false;  // drops the tail that ranks cannot share evenly; else samples repeat
};

// Indices rank, rank + num_replicas, ... of the dataset, or of a permutation that the seed and the
// epoch give: the same on all ranks, by other numbers than torch's.  All ranks get equally many.
// Throws for a rank outside of [0, num_replicas), KB-R002 without groups if one of both is missing.
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(const RuntimeContext& torch, DatasetSize dataset,
                     const DistributedSamplerOptions& options = {});
  std::vector<std::int64_t> indices() override;
  std::int64_t size() const override { return num_samples_; }
  // Call it before each epoch: without it all epochs have the same order.  Throws if it is
  // negative.
  void set_epoch(std::int64_t epoch);

 private:
  std::int64_t count_;
  std::int64_t replicas_;
  std::int64_t rank_;
  DistributedSamplerOptions options_;
  std::int64_t num_samples_;
  std::int64_t epoch_ = 0;
};

// Sample i is row i of each tensor, on the host or on a device.
template <std::size_t count>
class TensorDataset {
 public:
  template <std::same_as<Tensor>... Tensors>
  explicit TensorDataset(const Tensor& first, const Tensors&... others);
  std::int64_t size() const { return tensors_.front().shape()[0]; }
  // Throws DeviceError KB-M017 if there is no such sample.
  std::array<Tensor, count> get(std::int64_t index) const {
    std::array<Tensor, count> rows;
    for (std::size_t i = 0; i < count; ++i) rows[i] = tensors_[i][index];
    return rows;
  }

 private:
  std::array<Tensor, count> tensors_;
};
template <class... Tensors>
TensorDataset(const Tensors&...) -> TensorDataset<sizeof...(Tensors)>;

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;        // as RandomSampler; excludes a sampler
  Sampler* sampler = nullptr;  // lives as long as the loader
  bool drop_last = false;      // drops the last batch if it is smaller
  // Where batches lie: samples of the host are copied to the caller's device over the host link,
  // in simulated time, so that no x.to(device) is needed; with "cpu" they stay on the host.
  Device device = "ahbm";
  DPPolicy dp = {};  // of batches that are copied to the device
};

// Throw for options that do not go together, and for an index that the dataset has not.
void check_options(const DataLoaderOptions& options);
void check_index(std::int64_t index, std::int64_t size);
void check_dataset(const Tensor* tensors, std::size_t count);
[[noreturn]] void refuse_uneven_lists();

// Stack the samples of a batch, those of the host as one copy to where batches lie.
Tensor collate(RuntimeContext& torch, const DataLoaderOptions& options,
               const std::vector<Tensor>& samples);
Tensor collate(RuntimeContext& torch, const DataLoaderOptions& options,
               const std::vector<double>& samples);  // f32
Tensor collate(RuntimeContext& torch, const DataLoaderOptions& options,
               const std::vector<std::int64_t>& samples);

template <class Sample>
using Collatable =
    std::conditional_t<std::derived_from<Sample, Tensor>, Tensor,
                       std::conditional_t<std::is_integral_v<Sample>, std::int64_t, double>>;

// Batches of a dataset, which it copies.  A loop over it is one epoch.  A batch has a Tensor
// [batch, ...] where samples have a Tensor or a number: of a pair, a tuple or an array a
// std::array, of a vector a vector.
template <Dataset D>
class DataLoader {
 public:
  using Sample = std::remove_cvref_t<decltype(std::declval<const D&>().get(0))>;

  DataLoader(RuntimeContext& torch, D dataset, const DataLoaderOptions& options = {})
      : torch_(torch), dataset_(std::move(dataset)), options_(options) {
    check_options(options_);
    if (options_.shuffle) own_ = std::make_unique<RandomSampler>(torch, dataset_);
    if (own_ == nullptr) own_ = std::make_unique<SequentialSampler>(dataset_);
  }

  // The number of batches of an epoch.
  std::int64_t size() const {
    const std::int64_t rest = options_.drop_last ? 0 : options_.batch_size - 1;
    return (sampler().size() + rest) / options_.batch_size;
  }

  class Iterator {
   public:
    auto operator*() const { return loader_->batch(indices_, next_); }
    Iterator& operator++() {
      ++next_;
      return *this;
    }
    bool operator==(std::int64_t end) const { return next_ == end; }

   private:
    friend class DataLoader;
    Iterator(const DataLoader& loader, std::vector<std::int64_t> indices)
        : loader_(&loader), indices_(std::move(indices)) {}

    const DataLoader* loader_;
    std::vector<std::int64_t> indices_;
    std::int64_t next_ = 0;
  };
  Iterator begin() const { return Iterator(*this, sampler().indices()); }
  std::int64_t end() const { return size(); }

 private:
  Sampler& sampler() const { return options_.sampler != nullptr ? *options_.sampler : *own_; }

  auto batch(const std::vector<std::int64_t>& indices, std::int64_t number) const {
    const auto first = static_cast<std::size_t>(number * options_.batch_size);
    const std::size_t last =
        std::min(indices.size(), first + static_cast<std::size_t>(options_.batch_size));
    std::vector<Sample> samples;
    for (std::size_t i = first; i < last; ++i) {
      check_index(indices[i], static_cast<std::int64_t>(dataset_.size()));
      samples.push_back(dataset_.get(indices[i]));
    }
    return joined(samples);
  }

  // Returns the batch of what `part` takes from each sample.
  template <class Part>
  Tensor column(const std::vector<Sample>& samples, const Part& part) const {
    std::vector<Collatable<std::remove_cvref_t<decltype(part(samples.front()))>>> taken;
    for (const Sample& sample : samples) taken.push_back(part(sample));
    return collate(torch_, options_, taken);
  }

  auto joined(const std::vector<Sample>& samples) const {
    if constexpr (std::derived_from<Sample, Tensor> || std::is_arithmetic_v<Sample>) {
      return column(samples, [](const Sample& sample) { return sample; });
    } else if constexpr (std::same_as<Sample, std::vector<Tensor>>) {
      std::vector<Tensor> batch;
      for (const Sample& sample : samples) {
        if (sample.size() != samples.front().size()) refuse_uneven_lists();
      }
      for (std::size_t i = 0; i < samples.front().size(); ++i) {
        batch.push_back(column(samples, [i](const Sample& sample) { return sample[i]; }));
      }
      return batch;
    } else {
      return [&]<std::size_t... i>(std::index_sequence<i...>) {
        return std::array{
            column(samples, [](const Sample& sample) { return std::get<i>(sample); })...};
      }
      (std::make_index_sequence<std::tuple_size_v<Sample>>());
    }
  }

  RuntimeContext& torch_;
  D dataset_;
  DataLoaderOptions options_;
  std::unique_ptr<Sampler> own_;  // if none is given
};

template <std::size_t count>
template <std::same_as<Tensor>... Tensors>
TensorDataset<count>::TensorDataset(const Tensor& first, const Tensors&... others)
    : tensors_{first, others...} {
  check_dataset(tensors_.data(), count);
}

}  // namespace kernbench::utils::data
