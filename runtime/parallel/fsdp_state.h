// The state of a module that fully_shard was called with, and what it does around forward() and in
// the backward pass (torch.distributed.fsdp's FSDPState; ADR-0237).

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
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

  ParamGroup* group() const { return group_.get(); }
  // Calls function(state) for this state and, if it recurses, for those of all inner modules.
  void for_each(const RecurseOptions& options, const std::function<void(State&)>& function);
  void unshard();
  void set_is_last_backward(bool is_last);

  // If the state is that of several modules, the first one that is called gathers their parameters,
  // and the last one frees them.
  Tensor pre_forward(nn::Module& module, const Tensor& input);
  Tensor post_forward(nn::Module& module, const Tensor& output);
  nn::parallel::StepTimes last_step();

  bool has_own_reshard_setting = false;
  std::vector<std::weak_ptr<State>> forward_prefetch;
  std::vector<std::weak_ptr<State>> backward_prefetch;

 private:
  // What the states below a root share.
  struct Shared {
    std::vector<std::weak_ptr<State>> states;  // the root's first; modules may be gone
    std::weak_ptr<State> forward_root;
    bool has_queued_callback = false;
    bool is_last_backward = true;
    std::shared_ptr<CommContext> comm;
  };

  Tensor pre_forward(const Tensor& input);
  Tensor post_forward(const Tensor& output);
  void begin_forward();
  void become_root();
  void name_parameters();
  void warn_of_uncalled();
  void pre_backward();
  void end_backward();
  CommContext& comm();

  RuntimeContext& torch_;
  const std::vector<nn::Module*> modules_;
  std::vector<nn::Module*> uncalled_;  // of several, after the first one was called
  const MixedPrecisionPolicy policy_;
  const std::unique_ptr<ParamGroup> group_;
  std::shared_ptr<Shared> shared_;
  std::optional<bool> is_root_;  // known after the first forward pass
  Pass pass_ = Pass::idle;
};

}  // namespace kernbench::distributed::fsdp
