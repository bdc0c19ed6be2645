// A collective's kernels alone, begun on all participants at the same instant: without the launch,
// whose messages share the cubes' links and reach some cubes later than others.

#pragma once

#include <deque>
#include <functional>

#include "ccl/backend/kernel_launcher.h"
#include "ccl/backend/planned_call.h"
#include "ccl/core/config_rules.h"
#include "ccl/steps/lane_queues.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/components/operation.h"

namespace kernbench::test {

class KernelsUnderTest {
 public:
  KernelsUnderTest(const Topology& topology, const DPPolicy& dp, const ccl::Config& config)
      : torch_(topology, {.data = false}), dp_(dp), launcher_(torch_, config) {}

  // Runs the config's algorithm on f32 elements, and returns how long it took.  rank = SIP: on one
  // PE of each cube, of tensors of `n_elem`.  rank = PE: on every participant, which has `n_elem`.
  Time run(std::int64_t n_elem) {
    const Time begin = torch_.engine().now();
    make_tensors(n_elem);
    launcher_.config().algorithm().kernel != nullptr ? start_kernels() : start_plan();
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

  runtime::Simulation& simulation() { return simulation_of(torch_); }

  // One on each SIP; if ranks are PEs, the driver's single one.
  void make_tensors(std::int64_t n_elem) {
    const ccl::Layout& layout = launcher_.layout();
    tensors_.clear();
    if (layout.is_rank_pe()) {
      tensors_.push_back(torch_.empty({1, layout.world_size() * n_elem}, layout.placement({})));
      return;
    }
    for (int sip = 0; sip < torch_.topology().system.sip_count; ++sip) {
      torch_.ahbm.set_device(sip);
      tensors_.push_back(torch_.empty({n_elem}, {.dp = dp_}));
    }
  }

  void start_kernels() {
    for (const Tensor& x : tensors_) {
      for (const ShardInfo& shard : x.shards()) {
        if (shard.pe != 0 && !launcher_.layout().is_rank_pe()) continue;
        const sim::PeLocation pe{shard.sip, shard.cube, shard.pe};
        start(pe, [this, args = launcher_.arguments(x, pe)](tl::Context& tl) {
          launcher_.config().algorithm().kernel(tl, args);
        });
      }
    }
  }

  void start_plan() {
    const ccl::Layout& layout = launcher_.layout();
    ccl::GroupDevices devices;
    for (int i = 0; i < layout.world_size(); ++i) {
      if (layout.is_rank_pe()) {
        devices.pes.push_back(layout.pe(i));
      } else {
        devices.sips.push_back(i);
      }
    }
    const ccl::GroupShape shape = layout.is_rank_pe()
                                      ? ccl::shape_of_pes(layout.world_size())
                                      : ccl::shape_of_sips(torch_.topology(), devices.sips);
    const ccl::Config& config = launcher_.config();
    const ccl::Protocol* const protocol = protocol_of_tensors();
    call_ = std::make_unique<ccl::PlannedCall>(
        torch_.topology(), std::make_shared<ccl::CutCache>(torch_.topology()),
        std::make_shared<ccl::PlanCache>(shape), devices,
        ccl::CallSettings{&config.algorithm(), distributed::CollectiveKind::all_reduce,
                          config.root(), config.ipcq().slot_bytes, config.ipcq().depth,
                          protocol == nullptr});
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const distributed::Block block = distributed::whole(tensors_[i]);
      call_->requests[i].kind = distributed::CollectiveKind::all_reduce;
      call_->requests[i].gives = call_->requests[i].takes = {block};
    }
    call_->prepare();
    queues_ = std::make_unique<ccl::LaneQueues>(
        shared_simulation_of(torch_), call_->uses_slots() ? &launcher_.layout() : nullptr,
        call_->may_use_slots() || protocol != nullptr ? nullptr : launcher_.eager(), protocol);
    sips_ = devices.sips;
    programs_.clear();
    for (int i = 0; i < layout.world_size(); ++i) programs_.merge(call_->make_programs(i));
    for (const auto& entry : programs_) start_program(entry.first, entry.second);
  }

  const ccl::Protocol* protocol_of_tensors() const {
    const Tensor& x = tensors_.front();
    return launcher_.config().protocol_for(x.numel() * size_of(x.dtype()));
  }

  void start_program(const sim::PeLocation& at, const ccl::Program& program) {
    start(at, [this, at, &program](tl::Context& tl) {
      if (const ccl::Protocol* protocol = protocol_of_tensors()) tl.spend(protocol->start);
      const auto pe_of = [&](int node) { return call_->pe_of(node, program.lane); };
      run_steps(tl, *program.steps, queues_->ports(at, pe_of, sips_, call_->reduction().op),
                call_->reduction(), call_->request(program.member));
    });
  }

  void start(const sim::PeLocation& pe, std::function<void(tl::Context&)> body) {
    Kernel& kernel = kernels_.emplace_back();
    kernel.simulation = &simulation();
    kernel.local.kind = runtime::FiberLocal::Kind::kernel;
    kernel.local.pe = pe;
    kernel.fiber = &simulation().fibers().spawn(
        runtime::FiberName(runtime::write_name),
        [this, &kernel, body = std::move(body)] {
          tl::Context tl(simulation().fibers(), simulation().command_budget(), kernel.local,
                         simulation().machine().pe(kernel.local.pe),
                         sim::Engine::call<&Kernel::wake>(&kernel), "collective", 0, 1,
                         sim::Operation{});
          body(tl);
          tl.drain();
          last_end_ = simulation().now();
        },
        &kernel.local);
  }

  RuntimeContext torch_;
  const DPPolicy dp_;
  const ccl::KernelLauncher launcher_;
  std::unique_ptr<ccl::LaneQueues> queues_;
  std::vector<int> sips_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<ccl::PlannedCall> call_;
  ccl::Programs programs_;
  Time last_end_{0};
  std::deque<Kernel> kernels_;  // addresses stay
};

}  // namespace kernbench::test
