// DistributedDataParallel tells of itself here, by torch's names, and what of a step's
// communication the backward pass has hidden (ADR-0222).

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::nn::parallel {

// Entries of torch 1.13's _get_ddp_logging_data(), of this rank, but for variables of its
// environment (MASTER_ADDR, NCCL_DEBUG, ...), of which there are none, and can_set_static_graph.
// Times are the device's, of the last step that was logged (as in torch, the first 10 and every
// 100th), and averages over those.
struct DDPLoggingData {
  std::string module_name;  // of its class: "Sequential"
  int rank = 0;
  int world_size = 0;
  std::string backend_name;
  std::vector<int> device_ids;          // empty: none were given
  int output_device = -1;               // none was given
  bool is_multi_device_module = false;  // each rank has one device
  bool has_sync_bn = false;
  Bytes bucket_cap_bytes = 0;
  bool broadcast_buffers = false;
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  bool join_uneven_inputs = false;  // join() was called
  std::string comm_hook;            // its function or its class; empty: none
  std::string dtypes;               // of the parameters: "f32, bf16"
  std::int64_t iteration = 0;       // forward passes whose gradients are reduced
  std::size_t num_parameter_tensors = 0;
  Bytes total_parameter_size_bytes = 0;
  std::vector<Bytes> bucket_sizes;  // at first
  // The sizes at which buckets are closed, of each; the largest number: never.
  std::vector<Bytes> initial_bucket_size_limits;
  bool has_rebuilt_buckets = false;
  std::vector<Bytes> rebuilt_bucket_sizes;
  std::vector<Bytes> rebuilt_bucket_size_limits;
  std::vector<std::vector<std::size_t>> rebuilt_per_bucket_param_indices;
  std::vector<std::size_t> prev_iteration_grad_ready_order_indices;
  Bytes unused_parameter_size = 0;      // of parameters without a gradient here in the last pass
  std::size_t num_buckets_reduced = 0;  // in the last pass
  // Until the first gradient is there; from then until the last one is; from the first bucket's
  // reduction until all gradients are reduced; of that, until the last gradient is there.
  Time forward_compute_time{0};
  Time backward_compute_time{0};
  Time backward_comm_time{0};
  Time backward_compute_comm_overlap_time{0};
  Time avg_forward_compute_time{0};
  Time avg_backward_compute_time{0};
  Time avg_backward_comm_time{0};
  Time avg_backward_compute_comm_overlap_time{0};
  // The instants that these times lie between, since the simulation began.
  Time forward_compute_time_start{0};
  Time backward_compute_time_start{0};
  Time backward_comm_time_start{0};
  Time backward_compute_time_end{0};
  Time backward_comm_time_end{0};
};

// A bucket's reduction.  Times are the device's.
struct BucketTimes {
  std::size_t bucket = 0;
  std::vector<std::string> parameters;  // names
  Bytes bytes = 0;
  Time ready{0};    // all gradients are in the bucket
  Time started{0};  // the collective begins
  Time ended{0};
  Time hidden{0};               // of the time between the two, that in which the device ran kernels
  Time exposed{0};              // the rest
  std::string collective = {};  // its name, where a step has several kinds
  std::string name = {};        // as in traces and reports: "bucket 0", "blocks.0"
};

// A step, from its forward pass on.  Its time is the sum of the four.
struct StepTimes {
  std::int64_t iteration = 0;
  Time begin{0};
  Time end{0};
  Time compute_only{0};
  Time both{0};     // kernels ran beside collectives
  Time exposed{0};  // collectives alone
  Time idle{0};
  std::vector<BucketTimes> buckets;  // in the order of their reduction
};

// A table of the buckets, times in us since the step's begin, and the four shares.
std::string to_string(const StepTimes& step);

// "fp16_compress_hook" of the library's hooks, "function" of others.
std::string name_of_function(void (*hook)());
std::string name_of_class(const std::type_info& type);

template <class Hook>
std::string name_of_hook(const Hook& hook) {
  if constexpr (std::is_pointer_v<Hook> && std::is_function_v<std::remove_pointer_t<Hook>>) {
    return name_of_function(reinterpret_cast<void (*)()>(hook));
  } else {
    return name_of_class(typeid(Hook));
  }
}

}  // namespace kernbench::nn::parallel
