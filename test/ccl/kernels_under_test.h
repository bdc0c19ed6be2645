// A collective's kernels alone, begun on all participants at the same instant: without the launch,
// whose messages share the cubes' links and reach some cubes later than others.

#pragma once

#include <deque>

#include "ccl/kernel_launcher.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::test {

class KernelsUnderTest {
 public:
  KernelsUnderTest(const Topology& topology, const DPPolicy& dp, const ccl::Config& config)
      : torch_(topology, {.data = false}), dp_(dp), launcher_(torch_, config) {}

  // Runs the config's algorithm on f32 elements, and returns how long it took.  rank = SIP: on one
  // PE of each cube, of tensors of `n_elem`.  rank = PE: on every participant, which has `n_elem`.
  Time run(std::int64_t n_elem) {
    const Time begin = torch_.engine().now();
    launcher_.layout().is_rank_pe() ? start_on_pes(n_elem) : start_on_sips(n_elem);
    simulation().machine().engine().run();
    return last_end_ - begin;  // later than that only credits fly
  }

 private:
  struct Kernel {
    runtime::Simulation* simulation = nullptr;
    runtime::FiberLocal local;
    runtime::Fiber* fiber = nullptr;

    void wake() { simulation->fibers().wake(*fiber); }
  };

  runtime::Simulation& simulation() { return torch_.simulation(); }

  void start_on_sips(std::int64_t n_elem) {
    for (int sip = 0; sip < torch_.topology().system.sip_count; ++sip) {
      torch_.ahbm.set_device(sip);
      const Tensor& x = tensors_.emplace_back(torch_.empty({n_elem}, {.dp = dp_}));
      for (const ShardInfo& shard : x.shards()) {
        if (shard.pe == 0) start(x, {sip, shard.cube, 0});
      }
    }
  }

  void start_on_pes(std::int64_t n_elem) {
    const ccl::Layout& layout = launcher_.layout();
    const Tensor& x = tensors_.emplace_back(
        torch_.empty({1, layout.world_size() * n_elem}, layout.placement({})));
    for (int i = 0; i < layout.world_size(); ++i) start(x, layout.pe(i));
  }

  void start(const Tensor& x, const sim::PeLocation& pe) {
    Kernel& kernel = kernels_.emplace_back();
    kernel.simulation = &simulation();
    kernel.local.kind = runtime::FiberLocal::Kind::kernel;
    kernel.local.pe = pe;
    kernel.fiber = &simulation().fibers().spawn(
        runtime::FiberName(runtime::write_name),
        [this, &kernel, args = launcher_.arguments(x, pe)] {
          tl::Context tl(simulation().fibers(), simulation().command_budget(), kernel.local,
                         simulation().machine().pe(kernel.local.pe),
                         sim::Engine::call<&Kernel::wake>(&kernel), "collective", 0, 1);
          launcher_.config().algorithm().kernel(tl, args);
          tl.drain();
          last_end_ = simulation().now();
        },
        &kernel.local);
  }

  RuntimeContext torch_;
  const DPPolicy dp_;
  const ccl::KernelLauncher launcher_;
  std::deque<Tensor> tensors_;
  Time last_end_{0};
  std::deque<Kernel> kernels_;  // addresses stay
};

}  // namespace kernbench::test
