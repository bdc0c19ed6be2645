// torch.distributed.fsdp.fully_shard: data parallel training in which each rank keeps a part of
// every parameter, gradient and optimizer state, and has whole parameters only while they are used
// (FSDP2; ADR-0237).
//
//   Net net(torch);
//   for (const Block& block : *net->blocks) kb::distributed::fsdp::fully_shard(block);
//   kb::distributed::fsdp::fully_shard(net);
//   kb::optim::AdamW optimizer(net->parameters());  // after fully_shard(): of this rank's shards
//   loss(net(x), y).backward();
//   optimizer.step();

#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/nn/module.h"
#include "runtime/nn/state.h"
#include "runtime/parallel/logging_data.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::distributed::fsdp {

// torch.distributed.fsdp.MixedPrecisionPolicy.
struct MixedPrecisionPolicy {
  std::optional<DType> param_dtype = {};   // of what is gathered and computed with
  std::optional<DType> reduce_dtype = {};  // of gradients when they are reduced; else param_dtype
  std::optional<DType> output_dtype = {};  // of what forward() returns, but integers
  // The input becomes param_dtype, unless it is of integers.  Set it to false for ids in f32.
  bool cast_forward_inputs = true;
};

// Refused: there is no simulated memory of the host.
struct CPUOffloadPolicy {
  bool pin_memory = true;
};

// Says if parameters are freed after forward(), as torch's `bool | int`.  With a number n each n
// consecutive ranks, such as those of a node, keep the parameters among them and gather them from
// each other; n divides the number of ranks that share them.
struct ReshardAfterForward {
  ReshardAfterForward(bool frees) : is_wanted(frees) {}
  ReshardAfterForward(int keepers) : ranks(keepers) {}

  bool is_wanted = true;
  std::optional<int> ranks;
};

// The keyword arguments of fully_shard.
struct FullyShardOptions {
  // Ranks along a mesh of one dimension share the parameters.  In one of two named dimensions,
  // ranks along the second share them, and those along the first have the same (HSDP).  All ranks
  // share them if it is not set.
  std::optional<DeviceMesh> mesh = {};
  // Free the parameters after forward(), and gather them again for the backward pass.  If it is not
  // set, all modules do but the root, whose backward pass comes at once.
  std::optional<ReshardAfterForward> reshard_after_forward = {};
  MixedPrecisionPolicy mp_policy = {};
  std::optional<CPUOffloadPolicy> offload_policy = {};
  std::vector<Tensor> ignored_params = {};  // stay as they are, and their gradients too
};

class State;

// The wait for unshard() with async_op.
class UnshardHandle {
 public:
  explicit UnshardHandle(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void wait() const;

 private:
  std::shared_ptr<State> state_;
};

struct UnshardOptions {
  bool async_op = false;
};
struct RecurseOptions {
  bool recurse = true;
};

// A handle to a module that fully_shard was called with: torch's methods of it.
class FSDPModule {
 public:
  explicit FSDPModule(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Free this module's parameters, or gather them; not those of inner modules with a group of their
  // own.  With async_op the next forward pass waits, or the handle's wait().
  void reshard() const;
  UnshardHandle unshard(const UnshardOptions& options = {}) const;

  // False: gradients stay on their ranks, whole, and are added up until a backward pass reduces
  // them (torch's no_sync of FSDP2).
  void set_requires_gradient_sync(bool requires_gradient_sync,
                                  const RecurseOptions& options = {}) const;
  // False: those of HSDP are reduced over the ranks that share parameters alone.
  void set_requires_all_reduce(bool requires_all_reduce, const RecurseOptions& options = {}) const;
  void set_reshard_after_forward(bool reshard_after_forward,
                                 const RecurseOptions& options = {}) const;
  void set_reshard_after_backward(bool reshard_after_backward,
                                  const RecurseOptions& options = {}) const;
  // Divides gradients by this number, instead of by the number of ranks whose gradients are added.
  void set_gradient_divide_factor(double factor) const;
  // False: the end of the next backward pass waits for no reduction.
  void set_is_last_backward(bool is_last_backward) const;
  // Gather these modules' parameters as soon as this one's are there: in a forward pass in which
  // the host is not ahead of the device, and in a backward pass instead of the module before it.
  void set_modules_to_forward_prefetch(const std::vector<FSDPModule>& modules) const;
  void set_modules_to_backward_prefetch(const std::vector<FSDPModule>& modules) const;

  // Returns what the last step, since the root's forward pass began, has hidden of each all_gather
  // and reduce_scatter, in the order of their issue.  Waits for the device.
  nn::parallel::StepTimes last_step() const;

 private:
  std::shared_ptr<State> state_;
};

// Cuts the module's parameters along dimension 0, but those of inner modules that it was called
// with before, so call it from the inside out.  They form one group: one all_gather and one
// reduce_scatter each time.  From now on parameters() and state_dict() have this rank's shards,
// whose rows the last ranks may have fewer of, or none.  Parameters lie on the same PEs, each whole
// on all of them or cut by rows (DPPolicy::shared()); shards lie likewise, and those that are whole
// are sent by collectives of their own.  All ranks of the mesh call it, with the same module; no
// time passes, and the values are not sent: ranks begin with equal ones, by a seed or a broadcast.
//
// The parameters are there while the module is called by its handle's operator(), if that takes a
// tensor first and returns one, and in its backward pass; other uses are refused with KB-A019.
// If forward() or a backward pass throws on all ranks, they can call the module again: parameters
// are gathered anew, and gradients that have not been reduced are dropped.  Code that writes
// parameters before that must call ahbm.synchronize() first, since all_gathers may be under way.
//
// Throws CollectiveError KB-A020 for a module that has been sharded, or whose parameters cannot be;
// for a mesh of other dimensions, and for ranks whose modules differ.
FSDPModule fully_shard(nn::Module& module, const FullyShardOptions& options = {},
                       std::source_location location = std::source_location::current());
// The same for several modules that are called one after the other, none of them the root: they
// share a group.
FSDPModule fully_shard(const std::vector<std::shared_ptr<nn::Module>>& modules,
                       const FullyShardOptions& options = {},
                       std::source_location location = std::source_location::current());
template <class Holder>
requires std::derived_from<Holder, nn::HolderBase> FSDPModule
fully_shard(const Holder& module, const FullyShardOptions& options = {},
            std::source_location location = std::source_location::current()) {
  return fully_shard(*module, options, location);
}

// Returns a function that calls a method of a sharded module, which takes a tensor first and
// returns one, as operator() calls forward(): its parameters are gathered before and freed after,
// and hooks run.  Torch replaces the method instead.
//   const auto generate = register_fsdp_forward_method(net, &NetImpl::generate);
template <class Holder, class Method>
requires std::derived_from<Holder, nn::HolderBase>
auto register_fsdp_forward_method(const Holder& module, Method method) {
  return [module, method](const Tensor& input, const auto&... rest) -> Tensor {
    return module->call(input,
                        [&](const Tensor& taken) { return ((*module).*method)(taken, rest...); });
  };
}

}  // namespace kernbench::distributed::fsdp

namespace kernbench::distributed::checkpoint {

// torch.distributed.checkpoint.state_dict: whole or sharded parameters of a module that fully_shard
// has cut.

struct StateDictOptions {
  bool full_state_dict = false;  // whole parameters; else this rank's shards, as state_dict() has
  bool strict = true;
};

// Returns the parameters and buffers by their names.  Whole ones are gathered by an all_gather
// each, so all ranks call it.
nn::StateDict get_model_state_dict(const nn::Module& module, const StateDictOptions& options = {});

// Copies values into the parameters and buffers, of whole ones the rows of this rank's shards. Each
// rank calls it with the same whole state, or with its own shards.  Throws CollectiveError KB-A011
// as Module::load_state_dict() does, and on all ranks if shards do not fit one of them.
nn::IncompatibleKeys set_model_state_dict(nn::Module& module, const nn::StateDict& state,
                                          const StateDictOptions& options = {});

}  // namespace kernbench::distributed::checkpoint
