// A stage holds these tensors while a schedule runs, and does its part of each action.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/autograd/split_backward.h"
#include "runtime/distributed/process_group.h"
#include "runtime/distributed/work.h"
#include "runtime/parallel/fsdp_state.h"
#include "runtime/pipelining/action.h"
#include "runtime/pipelining/pipeline_stage.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/tensor_options.h"
#include "sim_engine/base/shape.h"

namespace kernbench::distributed::pipelining {

// Another tensor's shape, type and placement.
struct TensorKind {
  Shape shape;
  TensorOptions options;
  std::vector<ShardInfo> parts;

  static std::optional<TensorKind> of(const Tensor& tensor);
};

// The tensors of a micro-batch on a stage.  They are freed by its backward, or its half for the
// input.
struct StageMicrobatch {
  Tensor input = {};
  Tensor output = {};
  Tensor output_gradient = {};
  Tensor input_gradient = {};  // until it is sent
  Tensor loss = {};            // on the last stage
  Tensor target = {};
  Work input_arrives = {};
  Work gradient_arrives = {};
  // Between the two halves of its backward.
  std::shared_ptr<autograd::SplitBackward> split = {};
};

// The submodule's data parallelism: a DistributedDataParallel's reduction, and the modules in it
// that fully_shard was called with.
struct StageReplicas {
  ReplicaCalls calls = {};                  // without functions if there is no such module
  std::shared_ptr<nn::Module> module = {};  // null for a function

  void for_each_sharded(const std::function<void(fsdp::State&)>& function) const;
};

struct StageState {
  RuntimeContext& torch;
  std::vector<Tensor> parameters;
  int index = 0;
  int count = 0;
  PipelineStageOptions options;
  std::function<Tensor(const Tensor&)> forward = {};
  std::optional<TensorKind> input_kind = {};
  std::optional<TensorKind> output_kind = {};
  std::vector<StageMicrobatch> microbatches = {};
  std::vector<Work> sends = {};
  StageReplicas replicas = {};
  int backwards_left = 0;          // until gradients are complete
  bool has_reduce_action = false;  // the schedule says when gradients are reduced
  bool keeps_outputs = false;      // beyond their backward, for who asks for them

  bool is_first() const { return index == 0; }
  bool is_last() const { return index == count - 1; }
  StageMicrobatch& at(int microbatch) {
    return microbatches.at(static_cast<std::size_t>(microbatch));
  }

  void begin_step(int microbatches_of_step, bool has_backward);
  // Forgets a step that an exception has left.
  void abandon_step();
  // Lets the device wait for what a computation takes from another rank.
  void await_values(const Action& computation);
  void run_forward(int microbatch, const LossFunction& loss_fn);
  void run_backward(int microbatch);
  void run_backward_input(int microbatch);
  void run_backward_weight(int microbatch);
  // Does an action of the stage as a whole, if its parameters are cut.
  void run_for_shards(ActionKind kind) const;
  void begin_receive(const Action& action, int source);
  void begin_send(const Tensor& x, const Action& action, int target);
  // Take what the stage before gives, and find what this one gives, if that is not known yet.
  void accept_input(const TensorKind& kind);
  void find_output_kind();
  TensorKind receive_kind(int source) const;
  void send_kind(int target) const;
  void give_results(std::vector<Tensor>* losses, std::vector<Tensor>* outputs) const;
  // Divides the gradients of the parameters.
  void scale_gradients(int by) const;

 private:
  Tensor forward_checked(const Tensor& x) const;
  bool has_backward(const StageMicrobatch& own) const;
  const Tensor& result_of(const StageMicrobatch& own) const;
  void end_backward(StageMicrobatch& own, const Tensor& input_gradient) const;
  void begin_backward_of_weights(const std::vector<Tensor>& outputs);
  void end_backward_of_weights() const;
};

}  // namespace kernbench::distributed::pipelining
