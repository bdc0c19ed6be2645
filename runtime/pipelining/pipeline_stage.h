// torch.distributed.pipelining.PipelineStage: the part of a model that one rank, or one of several
// parts that it, runs on micro-batches.
//
//   kb::distributed::pipelining::PipelineStage stage(torch, block, rank, 4,
//                                                    {.input_args = x0, .output_args = y0});

#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/nn/module_holder.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::distributed::pipelining {

struct PipelineStageOptions {
  // The ranks of the pipeline; each of them has as many stages.
  ProcessGroup group = {};
  // Any tensors with the shape, the type and the placement of a micro-batch's input and output.
  // Without them the first step runs one micro-batch through all stages to find them, which takes
  // its time once.
  Tensor input_args = {};
  Tensor output_args = {};
};

// Returns the loss of a micro-batch, a tensor of one element.
using LossFunction = std::function<Tensor(const Tensor& output, const Tensor& target)>;

struct StageState;

// The functions of a DistributedDataParallel that a pipeline calls around a step's micro-batches.
struct ReplicaCalls {
  std::function<void()> prepare_for_forward = {};
  std::function<void(const std::vector<Tensor>& outputs)> prepare_for_backward = {};
  std::function<void()> forget_backward = {};
};

// A handle: copies refer to the same stage.
class PipelineStage {
 public:
  // The submodule takes a tensor and returns one: a holder of a module, a DistributedDataParallel,
  // or a function, which has no parameters.  The gradients of a DistributedDataParallel, torch's or
  // Megatron's (tp/distributed_data_parallel.h), and of a module that fully_shard was called with,
  // are added up over a step's micro-batches and reduced once, with or after the last backward of
  // the stage.  As in torch a no_sync() of the user's around step() changes nothing then, and
  // buffers are broadcast in the first step alone; a set_requires_gradient_sync(false) is obeyed.
  // A function's modules are not seen: give the module itself.
  // Throws CollectiveError KB-C024, in torch's words, if there is no such stage, or the group has
  // more ranks than there are stages.
  template <class Submodule>
  PipelineStage(RuntimeContext& torch, Submodule submodule, int stage_index, int num_stages,
                const PipelineStageOptions& options = {})
      : PipelineStage(torch, parameters_of(submodule), stage_index, num_stages, options) {
    if constexpr (std::derived_from<Submodule, nn::HolderBase>) set_module(submodule.ptr());
    if constexpr (requires { submodule->no_sync(); }) {
      set_calls({.prepare_for_forward = [submodule] { submodule->prepare_for_forward(); },
                 .prepare_for_backward =
                     [submodule](const std::vector<Tensor>& outputs) {
                       submodule->prepare_for_backward(outputs);
                     },
                 .forget_backward = [submodule] { submodule->forget_backward(); }});
      set_forward([submodule](const Tensor& x) mutable -> Tensor {
        const auto no_sync = submodule->no_sync();
        return submodule(x);
      });
    } else {
      set_forward([submodule](const Tensor& x) mutable -> Tensor { return submodule(x); });
    }
  }

  int stage_index() const;
  int num_stages() const;
  bool is_first() const { return stage_index() == 0; }
  bool is_last() const { return stage_index() == num_stages() - 1; }

  const std::shared_ptr<StageState>& state() const { return state_; }

 private:
  PipelineStage(RuntimeContext& torch, std::vector<Tensor> parameters, int stage_index,
                int num_stages, const PipelineStageOptions& options);
  void set_forward(std::function<Tensor(const Tensor&)> forward);
  void set_module(std::shared_ptr<nn::Module> module);
  void set_calls(ReplicaCalls calls);

  template <class Submodule>
  static std::vector<Tensor> parameters_of(const Submodule& submodule) {
    if constexpr (requires { submodule->parameters(); }) {
      return submodule->parameters();
    } else {
      return {};
    }
  }

  std::shared_ptr<StageState> state_;
};

}  // namespace kernbench::distributed::pipelining
