// torch.nn.parallel.DistributedDataParallel: the same module on every rank, each with samples of
// its own; backward() leaves in each rank's grad() the mean of all ranks' gradients (ADR-0222).
//
//   Net net(torch);
//   kb::nn::parallel::DistributedDataParallel ddp(net);
//   kb::optim::SGD optimizer(ddp->parameters(), 0.1);
//   loss(ddp(x), y).backward();
//   optimizer.step();

#pragma once

#include <source_location>
#include <utility>
#include <vector>

#include "runtime/nn/module.h"
#include "runtime/parallel/replica.h"

namespace kernbench::nn::parallel {

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
  // From now on hook(state, bucket) says how a bucket becomes the mean of all ranks', instead of an
  // all_reduce (comm_hook.h).  Once only (KB-A015).
  template <class State, class Hook>
  void register_comm_hook(State state, Hook hook) {
    std::string name = name_of_hook(hook);
    replica_.register_comm_hook([state = std::move(state), hook = std::move(hook)](
                                    GradBucket& bucket) mutable { return hook(state, bucket); },
                                std::move(name));
  }
  DDPLoggingData _get_ddp_logging_data() const { return replica_.logging_data(); }
  // What the backward pass has hidden of the last step's communication, by bucket.  Waits for the
  // device.
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
