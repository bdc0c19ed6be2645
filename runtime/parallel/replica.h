// What DistributedDataParallel does around a module's forward(), whatever the module's type.

#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/nn/module.h"
#include "runtime/parallel/comm_hook.h"
#include "runtime/parallel/step_times.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/units.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn::parallel {

// The keyword arguments of torch.nn.parallel.DistributedDataParallel, with its defaults.
struct DistributedDataParallelOptions {
  distributed::ProcessGroup process_group = {};
  double bucket_cap_mb = 25;      // in MiB; that of the first bucket is 1
  bool broadcast_buffers = true;  // rank 0's buffers become everybody's when a forward() begins
  // Parameters that the outputs of forward() do not depend on are found in each pass, and the other
  // ranks do not wait for their gradients.
  bool find_unused_parameters = false;
  // grad() of a parameter that lies whole on its holders is a view of its bucket: nothing is
  // copied back.
  bool gradient_as_bucket_view = false;
  // The graph is the same in each pass; what is unused is learned in the first.
  bool static_graph = false;
};

// The keyword arguments of join().
struct JoinOptions {
  bool divide_by_initial_world_size = true;  // else gradients are divided by the ranks with inputs
  bool enable = true;
  bool throw_on_early_termination = false;  // on all ranks, when the first has no more inputs
};

// Entries of torch's _get_ddp_logging_data(), of this rank.  Times are the device's, of the last
// step that was logged (as in torch, the first 10 and every 100th), and averages over those.
struct DDPLoggingData {
  int rank = 0;
  int world_size = 0;
  std::string backend_name;
  Bytes bucket_cap_bytes = 0;
  bool broadcast_buffers = false;
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  bool static_graph = false;
  std::string dtypes;          // of the parameters: "f32, bf16"
  std::int64_t iteration = 0;  // forward passes whose gradients are reduced
  std::size_t num_parameter_tensors = 0;
  Bytes total_parameter_size_bytes = 0;
  std::vector<Bytes> bucket_sizes;  // at first
  bool has_rebuilt_buckets = false;
  std::vector<Bytes> rebuilt_bucket_sizes;
  std::vector<std::vector<std::size_t>> rebuilt_per_bucket_param_indices;
  std::vector<std::size_t> prev_iteration_grad_ready_order_indices;
  std::size_t unused_parameter_size = 0;  // parameters without a gradient here in the last pass
  std::size_t num_buckets_reduced = 0;    // in the last pass
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
};

class Reducer;

class Replica {
 public:
  // Checks that all ranks have the same module, and gives them rank 0's parameters and buffers.
  Replica(std::shared_ptr<Module> module, const DistributedDataParallelOptions& options,
          std::source_location location);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  void begin_forward();
  void end_forward(const std::vector<Tensor>& outputs);

  bool reduces_gradients() const { return reduces_gradients_; }
  void set_reduces_gradients(bool on) { reduces_gradients_ = on; }
  void begin_join(const JoinOptions& options);
  // The caller has no more inputs: takes part in what the others do until none has.
  void end_join();
  void register_comm_hook(CommHook hook);
  // Waits for the device.
  DDPLoggingData logging_data() const;
  StepTimes last_step() const;

 private:
  bool is_synchronized() const;
  void broadcast(const std::vector<Tensor>& tensors, int root) const;
  std::vector<Tensor> state() const;

  // In join() each rank tells the others this before each pass.
  struct Vote {
    bool has_inputs = false;
    bool is_synchronized = false;  // the gradients of its pass are to be reduced
  };
  struct Votes {
    int active = 0;  // ranks with inputs
    int last = 0;    // the largest of them, whose buffers count
    bool reduce = false;
  };
  Votes vote(bool has_inputs) const;

  const std::shared_ptr<Module> module_;
  const DistributedDataParallelOptions options_;
  const std::source_location location_;
  RuntimeContext& torch_;
  std::shared_ptr<Reducer> reducer_;
  std::optional<JoinOptions> join_;
  bool reduces_gradients_ = true;
  bool syncs_buffers_ = true;  // as torch's: the last forward pass decides about the next
};

// Collects the tensors of what a forward() returns: a tensor, or a range or tuple of such.
inline void collect_tensors(std::vector<Tensor>& tensors, const Tensor& output) {
  tensors.push_back(output);
}
template <class Range>
requires requires(const Range& outputs) {
  std::begin(outputs);
  std::end(outputs);
}
void collect_tensors(std::vector<Tensor>& tensors, const Range& outputs) {
  for (const auto& output : outputs) collect_tensors(tensors, output);
}
template <class... Outputs>
void collect_tensors(std::vector<Tensor>& tensors, const std::tuple<Outputs...>& outputs) {
  std::apply([&](const auto&... output) { (collect_tensors(tensors, output), ...); }, outputs);
}
template <class First, class Second>
void collect_tensors(std::vector<Tensor>& tensors, const std::pair<First, Second>& outputs) {
  collect_tensors(tensors, outputs.first);
  collect_tensors(tensors, outputs.second);
}

}  // namespace kernbench::nn::parallel
