// torch.nn.parallel.DistributedDataParallel: the same module on every rank, each with samples of
// its own; backward() leaves in each rank's grad() the mean of all ranks' gradients (ADR-0222).
//
//   Net net(torch);
//   kb::nn::parallel::DistributedDataParallel ddp(net);
//   kb::optim::SGD optimizer(ddp->parameters(), 0.1);
//   loss(ddp(x), y).backward();
//   optimizer.step();

#pragma once

#include <concepts>
#include <iterator>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/nn/convolution.h"
#include "runtime/nn/module.h"
#include "runtime/parallel/comm_hook.h"
#include "runtime/parallel/logging_data.h"
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
  // Parameters that the outputs of forward() do not depend on, or only those that the loss does not
  // use, are found in each pass, and the other ranks do not wait for their gradients.  One loss,
  // one backward() uses all outputs of a pass.
  bool find_unused_parameters = false;
  // grad() of a parameter that lies whole on its holders is a view of its bucket: nothing is
  // copied back.
  bool gradient_as_bucket_view = false;
  // The graph is the same in each pass; what is unused is learned in the first.  The loss uses all
  // outputs (KB-A016).
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
  // Takes the tensors of what forward() has returned, and puts others of the same values in their
  // places, if it must know which of them the loss uses (torch's _DDPSink).
  void end_forward(const std::vector<Tensor*>& outputs);
  void prepare_for_forward();
  void prepare_for_backward(const std::vector<Tensor>& outputs);
  void forget_backward();

  const distributed::ProcessGroup& process_group() const { return options_.process_group; }
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
  std::vector<Tensor> buffers() const;  // but those that are ignored
  bool needs_sink() const;

  // Each rank in join() tells the others this before each pass.
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
  std::vector<std::string> ignored_;  // names of parameters and buffers
  std::string hook_name_;
  bool has_joined_ = false;
  JoinOptions join_;
  bool is_in_join_ = false;
  bool reduces_gradients_ = true;
  bool syncs_buffers_ = true;  // as torch's: the last forward pass decides about the next
};

// Collects the tensors of what a forward() returns, in their places: a tensor, or a range, map,
// tuple, pair or optional of such, in each other, with numbers and texts beside them.
template <class Output>
void collect_tensors(std::vector<Tensor*>& tensors, Output& output) {
  if constexpr (std::derived_from<Output, Tensor>) {
    tensors.push_back(&output);
  } else if constexpr (std::is_convertible_v<const Output&, std::string_view> ||
                       std::is_arithmetic_v<Output> || std::is_enum_v<Output>) {
    return;
  } else if constexpr (requires { std::tuple_size<std::remove_const_t<Output>>::value; }) {
    std::apply([&](auto&... each) { (collect_tensors(tensors, each), ...); }, output);
  } else if constexpr (requires { output.first, output.second; }) {  // an item of an OrderedDict
    collect_tensors(tensors, output.second);
  } else if constexpr (requires { output.has_value(), *output; }) {
    if (output.has_value()) collect_tensors(tensors, *output);
  } else {
    static_assert(
        requires { std::begin(output), std::end(output); },
        "DistributedDataParallel: forward() returns a tensor, or a std::pair, std::tuple, "
        "std::optional, range or map of tensors: a struct's tensors are not found");
    for (auto&& each : output) collect_tensors(tensors, each);
  }
}

// Leaves these parameters and buffers of a module, named as in named_parameters(), to each rank:
// a DistributedDataParallel that is made of it later neither broadcasts nor reduces them.
// Throws CollectiveError KB-A015 for a name that the module has not.
void _set_params_and_buffers_to_ignore_for_model(const std::shared_ptr<Module>& module,
                                                 const std::vector<std::string>& names);
template <class Holder>
requires std::derived_from<Holder, HolderBase>
void _set_params_and_buffers_to_ignore_for_model(const Holder& module,
                                                 const std::vector<std::string>& names) {
  _set_params_and_buffers_to_ignore_for_model(module.ptr(), names);
}

// While it lives, gradients of forward passes that begin are not reduced: they are added to grad().
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(Replica& replica) : replica_(replica), did_(replica.reduces_gradients()) {
    replica_.set_reduces_gradients(false);
  }
  ~NoSync() { replica_.set_reduces_gradients(did_); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  Replica& replica_;
  const bool did_;
};

template <class Holder>
class DistributedDataParallelImpl : public Module {
 public:
  DistributedDataParallelImpl(Holder contained, const DistributedDataParallelOptions& options,
                              std::source_location location)
      : module(register_module("module", std::move(contained))),
        replica_(module.ptr(), options, location) {}

  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    replica_.begin_forward();
    auto output = module(std::forward<Arguments>(arguments)...);
    std::vector<Tensor*> tensors;
    collect_tensors(tensors, output);
    replica_.end_forward(tensors);
    return output;
  }

  // `const auto guard = ddp->no_sync();` is torch's `with ddp.no_sync():`.  As there, it is the
  // forward pass that decides.
  NoSync no_sync() { return NoSync(replica_); }
  // For passes under no_sync() whose gradients are reduced together, as a pipeline's micro-batches
  // (torch's methods of ddp.reducer).  Call the first before them.  Call the second before the
  // backward pass of `outputs`, the last one: that pass reduces its gradients and those that were
  // added up before.  Call the third if an exception has left it.
  void prepare_for_forward() { replica_.prepare_for_forward(); }
  void prepare_for_backward(const std::vector<Tensor>& outputs) {
    replica_.prepare_for_backward(outputs);
  }
  void forget_backward() { replica_.forget_backward(); }
  // Calls loop(), in which ranks may have different numbers of inputs: one that has returned sends
  // zeros for gradients until all have (torch's `with ddp.join():`).  At the end all ranks get the
  // parameters of the one that had inputs longest.  Throws CollectiveError KB-A016 in torch's words
  // with throw_on_early_termination.
  template <class Loop>
  void join(const Loop& loop, const JoinOptions& options = {}) {
    replica_.begin_join(options);
    loop();
    replica_.end_join();
  }
  // Averages buckets over the ranks by hook(state, bucket) from now on, instead of by an all_reduce
  // (comm_hook.h).  It may be called once (KB-A015).
  template <class State, class Hook>
  void register_comm_hook(State state, Hook hook) {
    std::string name = name_of_hook(hook);
    replica_.register_comm_hook([state = std::move(state), hook = std::move(hook)](
                                    GradBucket& bucket) mutable { return hook(state, bucket); },
                                std::move(name));
  }
  // Updates the parameters of a bucket, or those given, as soon as it is reduced: no other
  // optimizer steps.  `make` makes an optimizer of parameters.
  template <class Make>
  void _register_fused_optim(Make make, std::vector<Tensor> optim_params = {}) {
    register_comm_hook(
        replica_.process_group(),
        _hook_then_optimizer(allreduce_hook, std::make_shared<OptimizerHookState>(
                                                 std::move(make), std::move(optim_params))));
  }
  DDPLoggingData _get_ddp_logging_data() const { return replica_.logging_data(); }
  // The part of the last step's communication that the backward pass has hidden, by bucket.  Waits
  // for the device.
  StepTimes last_step() const { return replica_.last_step(); }

  Holder module;

 private:
  Replica replica_;
};

// The constraint of a constructor whose first argument is the context.
template <class Given>
struct ModuleDemand {
  static_assert(sizeof(Given) == 0,
                "the module comes first, and has its context: DistributedDataParallel(net)");
  static constexpr bool kIsMet = true;
};

// A handle.  Its constructor is a collective over the group: all ranks get rank 0's parameters and
// buffers.  Throws CollectiveError KB-A015 if no parameter requires a gradient, or if the ranks'
// modules differ.  forward() and backward() throw KB-A016, in torch's words and with parameters and
// rank, if parameters get no gradient, or get it twice.
template <class Holder>
class DistributedDataParallel : public ModuleHolder<DistributedDataParallelImpl<Holder>> {
 public:
  explicit DistributedDataParallel(Holder module,
                                   const DistributedDataParallelOptions& options = {},
                                   std::source_location location = std::source_location::current())
      : ModuleHolder<DistributedDataParallelImpl<Holder>>(
            std::make_shared<DistributedDataParallelImpl<Holder>>(std::move(module), options,
                                                                  location)) {}
  template <std::same_as<RuntimeContext> Context>
  requires(ModuleDemand<Context>::kIsMet)
      DistributedDataParallel(const Context&, const Holder&,
                              const DistributedDataParallelOptions& = {})
  = delete;
};

}  // namespace kernbench::nn::parallel

namespace kernbench::nn {

// torch.nn.SyncBatchNorm: BatchNorm of [n, c, ...] whose mean and variance are, in training, those
// of the batches of all ranks of the group, which may be of different sizes, or empty: one
// all_gather of 2 c + 1 numbers in the forward pass, and one all_reduce of 2 c in the backward
// pass.
struct SyncBatchNormImpl : BatchNormImpl {
  SyncBatchNormImpl(const RuntimeContext& torch, const BatchNormOptions& of,
                    const distributed::ProcessGroup& group, const TensorOptions& tensors = {});
  SyncBatchNormImpl(const RuntimeContext& torch, const BatchNormOptions& of,
                    const TensorOptions& tensors = {})
      : SyncBatchNormImpl(torch, of, distributed::ProcessGroup(), tensors) {}
  SyncBatchNormImpl(const RuntimeContext& torch, std::int64_t num_features,
                    const TensorOptions& tensors = {})
      : SyncBatchNormImpl(torch, BatchNormOptions(num_features), tensors) {}
};
struct SyncBatchNorm : ModuleHolder<SyncBatchNormImpl> {
  using ModuleHolder<SyncBatchNormImpl>::ModuleHolder;

  // Makes all BatchNorms of a module do as SyncBatchNorm does, and returns the module.  They stay
  // the objects that they are, so that handles to them hold.
  template <class Holder>
  static Holder convert_sync_batchnorm(const Holder& module,
                                       const distributed::ProcessGroup& group = {}) {
    convert(*module, group);
    return module;
  }

 private:
  static void convert(Module& module, const distributed::ProcessGroup& group);
};

}  // namespace kernbench::nn
