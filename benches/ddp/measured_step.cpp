#include "benches/ddp/measured_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "benches/ddp/mesh.h"
#include "benches/ddp/pipeline_step.h"
#include "benches/ddp/step_bound.h"
#include "benches/ddp/step_parts.h"
#include "runtime/distributed/folded_ranks.h"
#include "runtime/functional/functional.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/parallel/flat_buffer.h"
#include "runtime/parallel/fully_shard.h"
#include "runtime/parallel/step_times.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "tp/distributed_data_parallel.h"
#include "tp/layers.h"
#include "tp/parallel_state.h"
#include "tp/param_and_grad_buffer.h"
#include "tp/parameter.h"

namespace kernbench::benches::ddp {

namespace {

using nn::parallel::BucketTimes;
using nn::parallel::StepTimes;

// The part of a step that may take the time of a model, of ranks that are nearly alike: a fiftieth.
constexpr int kMostOfModel = 50;

struct StepsOfRank {
  StepTimes first;
  StepTimes later;
  StepTimes middle;  // of the later one: a pass that is neither its first nor its last
  StageStep stage;
  Time modelled{0};  // of the later one: collectives that take their model's time
  MeshUse mesh;      // likewise
};

// Forward and backward of so many micro-batches.  While what `hold()` returns lives, no gradients
// are sent.
template <class Model, class Hold>
std::vector<PassInstants> run_passes(RuntimeContext& torch, const StepInput& input, int count,
                                     Model& model, const Tensor& tokens, const Tensor& between,
                                     const std::vector<PassInstants>& before, const Hold& hold) {
  std::vector<PassInstants> passes;
  const auto run_pass = [&] {
    PassInstants& instants = passes.emplace_back();
    instants.begin = nn::parallel::device_instant(torch, tokens.device());
    if (input.is_stage) {
      return run_stage_pass(
          torch, input, [&](const Tensor& x) { return model(x); }, tokens, between,
          before.empty() ? PassInstants() : before[passes.size() - 1], instants);
    }
    part_of_loss(input, loss_of(torch, input, model(tokens), tokens)).backward();
  };
  for (int i = 1; i < count; ++i) {
    const auto held = hold();
    run_pass();
  }
  run_pass();
  return passes;
}

// Runs three steps: the third has the buckets that the second one has formed, and communicates
// nothing else.  Returns the first and the third; the two before it have one pass.  A stage's
// third step is run once more, on a device that is busy until all launches of a part are there.
template <class Model, class Hold, class Finish, class Step, class Buckets>
StepsOfRank first_and_third(RuntimeContext& torch, const StepInput& input, Model& model,
                            const Hold& hold, const Finish& finish_gradients,
                            const Step& step_optimizer, const Buckets& find_buckets) {
  const Tensor tokens = make_tokens(torch, input);
  const Tensor between = input.is_stage ? make_between(torch, input) : Tensor();
  const Time& modelled = simulation_of(torch).attachments().get<distributed::ModelledTime>().sum;
  StepsOfRank steps;
  std::optional<MeshMeter> meter;
  if (input.is_mesh) meter.emplace(torch);
  const auto end_step = [&](const StageSpans& before, StageSpans& step) {
    const auto run = [&](Span StageSpans::*part, const std::function<void()>& work) {
      input.is_stage ? run_span(torch, step.*part, (before.*part).duration(), work) : work();
    };
    run(&StageSpans::gradients, finish_gradients);
    run(&StageSpans::optimizer, step_optimizer);
  };
  StageSpans did;
  for (int i = 0; i < 3; ++i) {
    const Time modelled_before = modelled;
    if (meter) meter->begin();
    const int passes = i < 2 ? 1 : input.microbatches;
    const auto before = torch.ahbm.memory_stats().current;
    if (input.is_stage) torch.ahbm.reset_peak_memory_stats();
    did.passes = run_passes(torch, input, passes, model, tokens, between, {}, hold);
    if (input.is_stage && i == 0) {
      steps.stage.gradients =
          torch.ahbm.memory_stats().current[MemoryKind::gradient] - before[MemoryKind::gradient];
    }
    if (input.is_stage && i == 2) {
      steps.stage.pass = measure_pass(torch, before.sum(), steps.stage.gradients);
    }
    end_step({}, did);
    const auto ended = nn::parallel::device_instant(torch, tokens.device());
    torch.ahbm.synchronize();
    StepTimes step = nn::parallel::step_between(*did.passes.front().begin, *ended);
    step.buckets = find_buckets(i > 0);
    (i == 0 ? steps.first : steps.later) = std::move(step);
    if (passes > 2) {
      steps.middle = nn::parallel::step_between(*did.passes[1].begin, *did.passes[2].begin);
    }
    steps.modelled = modelled - modelled_before;
    if (meter) steps.mesh = meter->end();
  }
  steps.stage.held = torch.ahbm.memory_stats().current.sum();
  profiler::timed(torch, "step 3", steps.later.begin, steps.later.end);
  if (input.is_stage) {
    for (const BucketTimes& bucket : steps.later.buckets) {
      did.reduction = std::max(did.reduction, bucket.ended - did.passes.back().end());
    }
    StageSpans queued;
    queued.passes =
        run_passes(torch, input, input.microbatches, model, tokens, between, did.passes, hold);
    end_step(did, queued);
    torch.ahbm.synchronize();
    steps.stage.costs = costs_of(did, queued);
  }
  return steps;
}

StepsOfRank ddp_steps(RuntimeContext& torch, const StepInput& input, const ModelHolder& holder) {
  nn::parallel::DistributedDataParallelOptions options{.bucket_cap_mb = input.bucket_cap_mb};
  options.broadcast_buffers = !input.is_stage;  // a pipeline's first step alone sends them
  if (input.is_mesh) options.process_group = tp::get_data_parallel_group(torch);
  nn::parallel::DistributedDataParallel model(holder, options);
  optim::AdamW optimizer(model->parameters());
  return first_and_third(
      torch, input, model, [&] { return model->no_sync(); },
      [&] {
        if (input.is_stage) scale_gradients(torch, optimizer.parameters(), input.microbatches);
        if (!input.is_mesh) return;
        tp::allreduce_sequence_parallel_gradients(torch, tp::parallel_parameters(*holder.ptr()));
      },
      [&] {
        optimizer.step();
        optimizer.zero_grad();
      },
      [&](bool) { return model->last_step().buckets; });
}

std::string name_of_parameter(const nn::Module& module, const Tensor& parameter) {
  for (const auto& item : module.named_parameters()) {
    if (item.value().storage() == parameter.storage()) return item.key();
  }
  return "";
}

StepsOfRank zero1_steps(RuntimeContext& torch, const StepInput& input, const ModelHolder& holder) {
  if (!input.is_mesh) tp::initialize_model_parallel(torch);
  tp::DistributedDataParallel<ModelHolder> model = make_zero1(torch, input, holder);
  tp::MegatronOptimizer optimizer(torch, model->buckets(), make_adamw);
  return first_and_third(
      torch, input, model, [&] { return model->no_sync(); },
      [&] { tp::finalize_model_grads(model); },
      [&] {
        optimizer.step();
        model->zero_grad_buffer();
      },
      [&](bool has_buckets) {
        std::vector<BucketTimes> rows;
        for (const auto& bucket : model->buckets()) {
          if (!has_buckets) break;
          BucketTimes row = bucket->reduction();
          row.bucket = rows.size();
          for (const Tensor& parameter : bucket->params()) {
            row.parameters.push_back(name_of_parameter(*holder.ptr(), parameter));
          }
          rows.push_back(std::move(row));
        }
        // Megatron sends a bucket as soon as it is complete, whichever it is.
        std::ranges::sort(rows, {}, &BucketTimes::started);
        return rows;
      });
}

// Groups of blocks, each closed when it has this many bytes, and a group of the root's for the
// rest.
distributed::fsdp::FSDPModule shard(const StepInput& input, nn::Module& module) {
  const double cap = input.bucket_cap_mb * 1024 * 1024;
  std::vector<std::shared_ptr<nn::Module>> group;
  Bytes bytes = 0;
  const auto close = [&] {
    if (!group.empty()) distributed::fsdp::fully_shard(std::exchange(group, {}));
    bytes = 0;
  };
  for (const auto& block : module.named_children()["blocks"]->children()) {
    group.push_back(block);
    for (const Tensor& parameter : block->parameters()) bytes += nn::parallel::bytes_of(parameter);
    if (static_cast<double>(bytes) >= cap) close();
  }
  close();
  return distributed::fsdp::fully_shard(module);
}

// While it lives, gradients stay whole on their ranks.
class HeldGradients {
 public:
  explicit HeldGradients(const distributed::fsdp::FSDPModule& module) : module_(module) {
    module_.set_requires_gradient_sync(false);
  }
  ~HeldGradients() { module_.set_requires_gradient_sync(true); }
  HeldGradients(const HeldGradients&) = delete;
  HeldGradients& operator=(const HeldGradients&) = delete;

 private:
  const distributed::fsdp::FSDPModule& module_;
};

StepsOfRank fsdp_steps(RuntimeContext& torch, const StepInput& input, const ModelHolder& holder) {
  const distributed::fsdp::FSDPModule fsdp = shard(input, *holder.ptr());
  optim::AdamW optimizer(holder.ptr()->parameters());
  return first_and_third(
      torch, input, holder, [&] { return HeldGradients(fsdp); }, [] {},
      [&] {
        optimizer.step();
        optimizer.zero_grad();
      },
      [&](bool) { return fsdp.last_step().buckets; });
}

// Buckets are compared over all ranks: a collective cannot begin before its last member's bucket is
// ready, so the earliest and the latest times of all ranks are kept.
struct AllRanks {
  std::map<std::size_t, Time> first_ready;  // by bucket
  std::map<std::size_t, Time> last_ended;
  Time begin = Time::max();
  Time end{0};

  void add(const StepTimes& step) {
    begin = std::min(begin, step.begin);
    end = std::max(end, step.end);
    for (const BucketTimes& bucket : step.buckets) {
      const auto ready = first_ready.try_emplace(bucket.bucket, bucket.ready).first;
      ready->second = std::min(ready->second, bucket.ready);
      Time& ended = last_ended[bucket.bucket];
      ended = std::max(ended, bucket.ended);
    }
  }
};

// True if no bucket has been closed because it had reached the cap, which is rounded down to whole
// elements: then any larger one makes the same buckets in the same order.  Groups of fully_shard
// are no such buckets.
bool are_below_cap(const StepInput& input, const std::vector<BucketTimes>& buckets) {
  const double below =
      input.bucket_cap_mb * 1024 * 1024 - static_cast<double>(size_of(input.dtype));
  return input.scheme != Scheme::fsdp2 &&
         std::ranges::all_of(buckets, [&](const BucketTimes& each) {
           return static_cast<double>(each.bytes) <= below;
         });
}

// A model may be wrong by about as much as it says.  Throws CollectiveMismatchError KB-C026.
void check_model_counts_little(Time modelled, Time step) {
  if (modelled * kMostOfModel <= step) return;
  distributed::refuse_unlike(
      "a step", fmt::format("collectives that take the time of their model are {:.0f} % of it",
                            100 * to_ns(modelled) / to_ns(step)));
}

}  // namespace

std::string_view name_of(Scheme scheme) {
  constexpr std::array kNames = {"ddp", "zero1", "fsdp2"};
  return kNames.at(static_cast<std::size_t>(scheme));
}

std::string collective_name(Scheme scheme, const BucketTimes& row) {
  if (!row.collective.empty()) return row.collective;
  return scheme == Scheme::ddp ? "all_reduce" : "reduce_scatter";
}

MeasuredStep measure_step(PointContext& point, const StepInput& input, const Topology& topology) {
  if (input.pp > 1 && !input.is_stage) return measure_pipeline_step(point, input, topology);
  MeasuredStep measured;
  AllRanks all;
  Time modelled{0};
  run_on_ranks(point, input, topology, [&](RuntimeContext& torch, int rank) {
    const ModelHolder holder{{}, make_model(torch, input)};
    const Work work = count_work(input, *holder.ptr());
    const Bytes kept = input.is_stage ? measure_kept(torch, input, holder) : 0;
    auto steps = input.scheme == Scheme::ddp     ? ddp_steps(torch, input, holder)
                 : input.scheme == Scheme::zero1 ? zero1_steps(torch, input, holder)
                                                 : fsdp_steps(torch, input, holder);
    if (input.dp() == 1) steps.later.buckets.clear();  // a rank alone sends nothing
    all.add(steps.later);
    if (rank != 0) return;
    modelled = steps.modelled;
    measured.are_nearly_alike = simulation_of(torch).machine().folding().is_on();
    measured.bound = step_bound(topology, input, work, steps.later.buckets);
    measured.flops = train::count_flops(*holder.ptr(), input.size, input.tp);
    measured.peak = torch.ahbm.max_memory_allocated();
    measured.mesh = steps.mesh;
    measured.are_below_cap = are_below_cap(input, steps.later.buckets);
    measured.first = std::move(steps.first);
    measured.middle = std::move(steps.middle);
    measured.stage = steps.stage;
    measured.stage.kept = kept;
    measured.later = std::move(steps.later);
  });
  measured.time = all.end - all.begin;
  check_model_counts_little(modelled, measured.time);
  std::vector<Time> ready;
  for (const BucketTimes& bucket : measured.later.buckets) {
    ready.push_back(all.first_ready.at(bucket.bucket));
    measured.last_ended.push_back(all.last_ended.at(bucket.bucket));
  }
  measured.bounds = compute_bounds(topology, input, measured.later.buckets, ready);
  return measured;
}

}  // namespace kernbench::benches::ddp
