// The state of a module that fully_shard was called with, and what it does around forward() and in
// the backward pass (torch.distributed.fsdp's FSDPState; ADR-0237).

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/nn/module.h"
#include "runtime/parallel/fsdp_param_group.h"
#include "runtime/parallel/fully_shard.h"

namespace kernbench::distributed::fsdp {

class State : public nn::Module::Extension, public std::enable_shared_from_this<State> {
 public:
  // `group` is null if inner modules have all parameters.
  State(RuntimeContext& torch, std::vector<nn::Module*> modules, const FullyShardOptions& options,
        std::unique_ptr<ParamGroup> group);

  // Returns the state of a module, or null.
  static std::shared_ptr<State> of(const nn::Module& module);
  // Returns those of a module and of all inner ones that lie in no other one of them.
  static std::vector<std::shared_ptr<State>> outermost_of(nn::Module& module);

  // A pass that an exception has left is over, and parameters are gathered anew.
  void forward_has_thrown() noexcept override;
  // Throws CollectiveError KB-A019: nothing would tell when the backward pass begins.
  void forward_returned_no_tensor() override;
  void module_ends(nn::Module& module) noexcept override;

  ParamGroup* group() const { return group_.get(); }
  // Calls function(state) for this state and, if it recurses, for those of all inner modules.
  void for_each(const RecurseOptions& options, const std::function<void(State&)>& function);
  void unshard();
  void set_is_last_backward(bool is_last);

  // For pipelines, which run a stage's micro-batches forward and backward in any order, these act
  // on inner modules as well.  While reduction is deferred, backward passes add gradients up and
  // free no parameters, as torch's stages have it; reduce_deferred() reduces what was added, and
  // frees, as the settings say.  add_deferred() adds the gradients that have come after a
  // backward pass, in the type in which they will be reduced.  drop_deferred() forgets all after an
  // exception.
  void set_defers_reduction(bool defers);
  void add_deferred();
  void reduce_deferred();
  void drop_deferred();
  void unshard_all();
  void reshard_all();

  // If the state is that of several modules, the first one that is called gathers their parameters,
  // and the last one frees them.
  Tensor pre_forward(nn::Module& module, const Tensor& input);
  Tensor post_forward(nn::Module& module, const Tensor& output);
  nn::parallel::StepTimes last_step();

  bool has_own_reshard_setting = false;
  std::vector<std::weak_ptr<State>> forward_prefetch;
  std::vector<std::weak_ptr<State>> backward_prefetch;

 private:
  // The states below a root share this.
  struct Shared {
    std::vector<std::weak_ptr<State>> states;  // the root's first; modules may be gone
    std::weak_ptr<State> forward_root;
    std::size_t first_forward = 0;            // of the root's forward pass, in forward_order
    std::shared_ptr<const bool> graph;        // what this forward pass records
    std::weak_ptr<const bool> graphs;         // expires when no backward pass can follow any more
    std::weak_ptr<const bool> backward_pass;  // expires at its end, and when it throws
    bool has_begun_backward = false;          // and not ended
    bool is_last_backward = true;
    bool defers_reduction = false;
    std::shared_ptr<CommContext> comm;
  };

  void for_each_group(const std::function<void(ParamGroup&)>& function);
  Tensor pre_forward(const Tensor& input);
  Tensor post_forward(const Tensor& output);
  void begin_forward();
  void begin_graph();
  void forget_forwards_from(std::size_t begin) noexcept;
  void become_root();
  void name_parameters();
  void warn_of_uncalled();
  bool computes_again() const;  // forward(), in a backward pass: for a checkpoint
  void end_thrown_backward();
  void begin_backward();
  void pre_backward();
  void end_backward();
  CommContext& comm();

  RuntimeContext& torch_;
  const bool is_of_several_;
  std::vector<nn::Module*> modules_;  // those that there still are
  std::vector<nn::Module*> unended_;  // of several, after the first one was called
  const MixedPrecisionPolicy policy_;
  const std::unique_ptr<ParamGroup> group_;
  std::shared_ptr<Shared> shared_;
  std::optional<bool> is_root_;  // known after the first forward pass
  Pass pass_ = Pass::idle;
};

}  // namespace kernbench::distributed::fsdp
