#include "runtime/context/runtime_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench {

void AhbmNamespace::set_device(int device) {
  if (device < 0 || device >= device_count()) {
    throw CollectiveError("KB-R003",
                          fmt::format("invalid device ordinal {}: there are devices 0 to "
                                      "{}",
                                      device, device_count() - 1));
  }
  simulation_.local().device = device;
}

int AhbmNamespace::current_device() const {
  return simulation_.local().device;
}

int AhbmNamespace::device_count() const {
  return simulation_.machine().topology().system.sip_count;
}

Time EngineView::critical_pe_exec() const {
  Time longest{0};
  for (const runtime::KernelResult& result : last_results()) {
    longest = std::max(longest, result.end - result.start);
  }
  return longest;
}

Time EngineView::composite_window() const {
  Time longest{0};
  for (const runtime::KernelResult& result : last_results()) {
    longest = std::max(longest, result.composite_window);
  }
  return longest;
}

Bytes EngineView::hbm_bytes_loaded() const {
  Bytes bytes = 0;
  for (const runtime::KernelResult& result : last_results()) bytes += result.loaded;
  return bytes;
}

Bytes EngineView::hbm_bytes_stored() const {
  Bytes bytes = 0;
  for (const runtime::KernelResult& result : last_results()) bytes += result.stored;
  return bytes;
}

RuntimeContext::RuntimeContext(const Topology& topology, RuntimeOptions options)
    : options_(std::move(options)),
      simulation_(std::make_shared<runtime::Simulation>(
          topology, sim::MachineOptions{options_.data, options_.trace, options_.op_log_limit},
          options_.replay_threads,
          runtime::RunLimits{options_.command_limit, options_.kernel_time_limit})) {}

// Tensors may live on; what runs may not.
RuntimeContext::~RuntimeContext() {
  multiprocessing.report_unfinished();
  simulation_->abandon();
}

Tensor RuntimeContext::make(const Shape& shape, const TensorOptions& options) const {
  TensorOptions named = options;
  if (named.name.empty()) named.name = fmt::format("tensor{}", tensor_count_);
  ++tensor_count_;
  return Tensor(runtime::make_device_storage(simulation_, ahbm.current_device(), shape, named));
}

Tensor RuntimeContext::full(const Shape& shape, double value, const TensorOptions& options) const {
  Tensor tensor = make(shape, options);
  runtime::fill(*tensor.storage(), static_cast<float>(value));
  return tensor;
}

Tensor RuntimeContext::zeros(const Shape& shape, const TensorOptions& options) const {
  return full(shape, 0, options);
}

Tensor RuntimeContext::ones(const Shape& shape, const TensorOptions& options) const {
  return full(shape, 1, options);
}

Tensor RuntimeContext::empty(const Shape& shape, const TensorOptions& options) const {
  return make(shape, options);
}

Tensor RuntimeContext::tensor(std::span<const float> elements, const Shape& shape) {
  if (static_cast<std::int64_t>(elements.size()) != shape.numel()) {
    throw DeviceError("KB-M015", fmt::format("shape {} is invalid for input of size {}",
                                             to_string(shape), elements.size()));
  }
  return Tensor(runtime::make_host_storage(shape, {elements.begin(), elements.end()}));
}

Tensor RuntimeContext::from_blob(const float* elements, const Shape& shape) {
  return tensor(std::span(elements, static_cast<std::size_t>(shape.numel())), shape);
}

void RuntimeContext::check_on_device(const Tensor& tensor, std::string_view user) const {
  runtime::check_on_device(tensor, user);
  if (tensor.storage()->simulation != simulation_) {
    throw DeviceError(
        "KB-M013", fmt::format("{}: tensor '{}' belongs to another context", user, tensor.name()));
  }
}

tl::Pointer RuntimeContext::pointer_to(const Tensor& tensor, const sim::PeLocation& pe) {
  const Tensor::Storage& storage = *tensor.storage();
  for (const sim::DeviceBuffer& buffer : storage.buffers()) {
    if (buffer.home == pe) return {buffer, storage.name};
  }
  return {};
}

void RuntimeContext::launch_on_holders(std::string_view name, const Tensor& first,
                                       std::vector<Tensor> uses,
                                       std::function<void(tl::Context&)> body) {
  for (const Tensor& tensor : uses) check_on_device(tensor, fmt::format("launch of '{}'", name));
  runtime::run_on_holders(name, first, std::move(uses), std::move(body));
}

}  // namespace kernbench
