// Batches of samples.

#include <fmt/format.h>

#include "runtime/data/data_loader.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::utils::data {

namespace {

[[noreturn]] void refuse_data(std::string_view text) {
  throw CollectiveError("KB-C020", text);
}

// Samples of the host have one shape and one type, since they become rows of one tensor.
void check_samples_are_alike(const std::vector<Tensor>& samples) {
  const Tensor& first = samples.front();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Tensor& sample = samples[i];
    if (!sample.defined()) refuse_data(fmt::format("DataLoader: sample {} of a batch is None", i));
    if (sample.shape() != first.shape()) {
      refuse_data(
          fmt::format("stack expects each tensor to be equal size, but got {} at entry 0 and {} at "
                      "entry {}",
                      to_string(first.shape()), to_string(sample.shape()), i));
    }
    if (sample.is_host() == first.is_host() &&
        (!sample.is_host() || sample.dtype() == first.dtype())) {
      continue;
    }
    refuse_data(
        fmt::format("DataLoader: samples 0 and {} of a batch are not of one type on the "
                    "host, or all on a device",
                    i));
  }
}

template <class Number>
Tensor stacked_on_host(const std::vector<Tensor>& samples, const Shape& shape) {
  std::vector<Number> elements;
  elements.reserve(static_cast<std::size_t>(shape.numel()));
  for (const Tensor& sample : samples) {
    const std::vector<Number> own = sample.to_vector<Number>();
    elements.insert(elements.end(), own.begin(), own.end());
  }
  return Tensor(runtime::make_host_storage(shape, std::move(elements), samples.front().dtype()));
}

// Copies a batch to where batches lie.
Tensor placed(RuntimeContext& torch, const DataLoaderOptions& options, const Tensor& batch) {
  if (options.device.is_host()) return batch;
  const int own = simulation_of(torch).local().device;
  if (const int wanted = options.device.index_or(own); wanted != own) {
    throw DeviceError("KB-M024",
                      "DataLoader: batches for ahbm:{} in code whose device is ahbm:{}; call "
                      "torch.ahbm.set_device({}) first",
                      wanted, own, wanted);
  }
  const Tensor made = torch.empty(batch.shape(), {.dtype = batch.dtype(), .dp = options.dp});
  made.copy_(batch);
  return made;
}

}  // namespace

void check_options(const DataLoaderOptions& options) {
  if (options.batch_size <= 0) {
    refuse_data(fmt::format("batch_size should be a positive integer value, but got batch_size={}",
                            options.batch_size));
  }
  if (options.shuffle && options.sampler != nullptr) {
    refuse_data("sampler option is mutually exclusive with shuffle");
  }
}

void check_index(std::int64_t index, std::int64_t size) {
  if (index >= 0 && index < size) return;
  refuse_data(
      fmt::format("index {} is out of bounds for dimension 0 with size {}: a sampler of "
                  "another dataset?",
                  index, size));
}

void check_dataset(const Tensor* tensors, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!tensors[i].defined() || tensors[i].shape().rank() == 0) {
      refuse_data(fmt::format("TensorDataset: tensor {} has no rows: it is {}", i,
                              tensors[i].defined() ? "a single number" : "None"));
    }
    if (tensors[i].shape()[0] == tensors[0].shape()[0]) continue;
    refuse_data(fmt::format("Size mismatch between tensors: tensor 0 has {} rows, tensor {} has {}",
                            tensors[0].shape()[0], i, tensors[i].shape()[0]));
  }
}

void refuse_uneven_lists() {
  refuse_data("each element in list of batch should be of equal size");
}

Tensor collate(RuntimeContext& torch, const DataLoaderOptions& options,
               const std::vector<Tensor>& samples) {
  check_samples_are_alike(samples);
  if (!samples.front().is_host()) {
    const Tensor batch = stack(samples);
    return options.device.is_host() ? batch.cpu() : batch;
  }
  std::vector<std::int64_t> sizes{static_cast<std::int64_t>(samples.size())};
  for (const std::int64_t size : samples.front().shape()) sizes.push_back(size);
  const Shape shape{sizes};
  return placed(torch, options,
                is_integral(samples.front().dtype()) ? stacked_on_host<std::int64_t>(samples, shape)
                                                     : stacked_on_host<float>(samples, shape));
}

Tensor collate(RuntimeContext& torch, const DataLoaderOptions& options,
               const std::vector<double>& samples) {
  const std::vector<float> elements(samples.begin(), samples.end());
  return placed(torch, options,
                RuntimeContext::tensor(elements, {static_cast<std::int64_t>(elements.size())}));
}

Tensor collate(RuntimeContext& torch, const DataLoaderOptions& options,
               const std::vector<std::int64_t>& samples) {
  return placed(torch, options,
                RuntimeContext::tensor(samples, {static_cast<std::int64_t>(samples.size())}));
}

}  // namespace kernbench::utils::data
