// torch.nn.parallel.DistributedDataParallel: the same module on every rank, each with samples of
// its own; backward() leaves in each rank's grad() the mean of all ranks' gradients (ADR-0222).
//
//   Net net(torch);
//   kb::nn::parallel::DistributedDataParallel ddp(net);
//   kb::optim::SGD optimizer(ddp->parameters(), 0.1);
//   loss(ddp(x), y).backward();
//   optimizer.step();

#pragma once

#include <iterator>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/nn/module.h"
#include "runtime/parallel/comm_hook.h"
#include "runtime/parallel/logging_data.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/memory.h"
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
  std::string hook_name_;
  bool has_joined_ = false;
  JoinOptions join_;
  bool is_in_join_ = false;
  bool reduces_gradients_ = true;
  bool syncs_buffers_ = true;  // as torch's: the last forward pass decides about the next
};

// Collects the tensors of what a forward() returns: a tensor, or a range or tuple of such.
void collect_tensors(std::vector<Tensor>& tensors, const Tensor& output);
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
    std::vector<Tensor> tensors;
    collect_tensors(tensors, output);
    replica_.end_forward(tensors);
    return output;
  }

  // `const auto guard = ddp->no_sync();` is torch's `with ddp.no_sync():`.  As there, it is the
  // forward pass that decides.
  NoSync no_sync() { return NoSync(replica_); }
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
  DDPLoggingData _get_ddp_logging_data() const { return replica_.logging_data(); }
  // The part of the last step's communication that the backward pass has hidden, by bucket.  Waits
  // for the device.
  StepTimes last_step() const { return replica_.last_step(); }

  Holder module;

 private:
  Replica replica_;
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
};

}  // namespace kernbench::nn::parallel
