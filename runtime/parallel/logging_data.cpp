#include "runtime/parallel/logging_data.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "runtime/parallel/comm_hook.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/parallel/reducer.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/exception_text.h"

namespace kernbench::nn::parallel {

namespace {

std::string join_type_names(const std::vector<Tensor>& parameters) {
  std::vector<std::string_view> names;
  for (const Tensor& parameter : parameters) {
    const std::string_view name = name_of(parameter.dtype());
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// The limits of buckets in the order in which they were closed: the first bucket of each type has a
// limit of its own.
std::vector<Bytes> list_limits(const std::vector<DType>& buckets, Bytes first, Bytes others) {
  std::vector<DType> known;
  std::vector<Bytes> limits;
  for (const DType dtype : buckets) {
    const bool is_known = std::ranges::find(known, dtype) != known.end();
    limits.push_back(is_known ? others : first);
    if (!is_known) known.push_back(dtype);
  }
  return limits;
}

void add_times(DDPLoggingData& data, const std::vector<LoggedStep>& steps) {
  std::int64_t count = 0;
  for (const LoggedStep& step : steps) {
    if (!step.is_complete()) continue;
    ++count;
    const auto add = [](Time& last, Time& sum, Time now) { sum += last = now; };
    add(data.forward_compute_time, data.avg_forward_compute_time, step.forward_compute());
    add(data.backward_compute_time, data.avg_backward_compute_time, step.backward_compute());
    add(data.backward_comm_time, data.avg_backward_comm_time, step.backward_comm());
    add(data.backward_compute_comm_overlap_time, data.avg_backward_compute_comm_overlap_time,
        step.overlap());
    data.forward_compute_time_start = step.forward_start->at;
    data.backward_compute_time_start = step.backward_compute_start->at;
    data.backward_comm_time_start = step.backward_comm_start->at;
    data.backward_compute_time_end = step.backward_compute_end->at;
    data.backward_comm_time_end = step.backward_comm_end->at;
  }
  if (count == 0) return;
  for (Time* const sum :
       {&data.avg_forward_compute_time, &data.avg_backward_compute_time,
        &data.avg_backward_comm_time, &data.avg_backward_compute_comm_overlap_time}) {
    *sum /= count;
  }
}

}  // namespace

std::string name_of_class(const std::type_info& type) {
  return demangle(type.name());
}

std::string name_of_function(void (*hook)()) {
  const std::array known = {
      std::pair(reinterpret_cast<void (*)()>(&allreduce_hook), "allreduce_hook"),
      std::pair(reinterpret_cast<void (*)()>(&fp16_compress_hook), "fp16_compress_hook"),
      std::pair(reinterpret_cast<void (*)()>(&bf16_compress_hook), "bf16_compress_hook"),
      std::pair(reinterpret_cast<void (*)()>(&powerSGD_hook), "powerSGD_hook"),
  };
  for (const auto& [function, name] : known) {
    if (function == hook) return name;
  }
  return "function";
}

void Replica::describe_options(DDPLoggingData& data) const {
  data.module_name = module_->name();
  data.rank = torch_.distributed.get_rank(options_.process_group);
  data.world_size = torch_.distributed.get_world_size(options_.process_group);
  data.backend_name = torch_.distributed.get_backend(options_.process_group);
  data.bucket_cap_bytes = reducer_->bucket_cap();
  data.broadcast_buffers = options_.broadcast_buffers;
  data.find_unused_parameters = options_.find_unused_parameters;
  data.gradient_as_bucket_view = options_.gradient_as_bucket_view;
  data.static_graph = options_.static_graph;
  data.join_uneven_inputs = has_joined_;
  data.comm_hook = hook_name_;
  data.dtypes = join_type_names(module_->parameters());
}

DDPLoggingData Replica::logging_data() const {
  torch_.ahbm.synchronize();
  DDPLoggingData data;
  describe_options(data);
  data.iteration = reducer_->iteration();
  data.num_parameter_tensors = reducer_->names().size();
  data.bucket_sizes = reducer_->first_bucket_bytes();
  for (const Bytes bytes : data.bucket_sizes) data.total_parameter_size_bytes += bytes;
  data.initial_bucket_size_limits = reducer_->first_bucket_limits();
  data.has_rebuilt_buckets = reducer_->has_rebuilt_buckets();
  data.prev_iteration_grad_ready_order_indices = reducer_->ready_order();
  data.unused_parameter_size = reducer_->unused_bytes();
  data.num_buckets_reduced = reducer_->reduced_count();
  add_times(data, reducer_->logged_steps());
  if (!data.has_rebuilt_buckets) return data;
  for (const Reducer::Bucket& bucket : reducer_->buckets()) {
    data.rebuilt_bucket_sizes.push_back(bucket.bytes);
    data.rebuilt_per_bucket_param_indices.push_back(bucket.parameters);
  }
  data.rebuilt_bucket_size_limits = reducer_->bucket_limits();
  return data;
}

std::vector<Bytes> Reducer::bucket_limits() const {
  std::vector<DType> types;
  for (const Bucket& bucket : buckets_) {
    types.push_back(parameters_[bucket.parameters.front()].dtype());
  }
  return list_limits(types, options_.first_bucket_bytes_cap, options_.bucket_bytes_cap);
}

// The first buckets are closed in the order of their parameters, and lie in the reverse one.
std::vector<Bytes> Reducer::first_limits() const {
  if (!searches_unused()) {
    return std::vector<Bytes>(buckets_.size(), std::numeric_limits<Bytes>::max());
  }
  std::vector<DType> types;
  for (const Bucket& bucket : buckets_) {
    types.insert(types.begin(), parameters_[bucket.parameters.front()].dtype());
  }
  std::vector<Bytes> limits =
      list_limits(types, options_.first_bucket_bytes_cap, options_.bucket_bytes_cap);
  std::ranges::reverse(limits);
  return limits;
}

Bytes Reducer::unused_bytes() const {
  Bytes bytes = 0;
  for (const std::size_t unused : unused_) bytes += bytes_of(parameters_[unused]);
  return bytes;
}

}  // namespace kernbench::nn::parallel
