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
#include "runtime/parallel/logging_data.h"
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
  void register_comm_hook(CommHook hook, std::string its_name);
  // Waits for the device.
  DDPLoggingData logging_data() const;
  StepTimes last_step() const;

 private:
  void describe_options(DDPLoggingData& data) const;
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
  std::string hook_name_;
  bool has_joined_ = false;
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
