#include "benches/ddp/pipeline_step.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "benches/ddp/mesh.h"
#include "benches/ddp/step_bound.h"
#include "benches/ddp/step_parts.h"
#include "runtime/distributed/distributed.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/parallel/step_times.h"
#include "runtime/pipelining/schedules.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/components/launcher.h"
#include "tp/distributed_data_parallel.h"
#include "tp/layers.h"
#include "tp/parallel_state.h"
#include "tp/param_and_grad_buffer.h"
#include "tp/parameter.h"

namespace kernbench::benches::ddp {

namespace {

using namespace distributed::pipelining;

std::set<int> stages_in(const std::vector<Action>& list) {
  std::set<int> stages;
  for (const Action& action : list) stages.insert(action.stage);
  return stages;
}

// The times and the memory of a rank's step.
struct RankStep {
  nn::parallel::StepTimes times;
  MeshUse mesh;
  std::vector<ActionTime> actions;
  Bytes peak = 0;
  double flops = 0;
  std::map<int, Work> work;  // of its stages

  Time computed() const {
    return std::accumulate(actions.begin(), actions.end(), Time{0},
                           [](Time sum, const ActionTime& each) { return sum + each.duration(); });
  }
};

class PipelineRanks {
 public:
  PipelineRanks(RuntimeContext& torch, const StepInput& input)
      : torch_(torch), input_(input), meter_(torch) {
    const distributed::ProcessGroup group = tp::get_pipeline_model_parallel_group(torch);
    const ActionLists lists = list_actions(input);
    const auto own = static_cast<std::size_t>(torch.distributed.get_rank(group));
    std::vector<PipelineStage> stages;
    std::vector<Tensor> parameters;
    for (const int stage : stages_in(lists.at(own))) {
      const StepInput part = stage_of(input, stage);
      models_.push_back({{}, make_model(torch, part)});
      for (const Tensor& each : models_.back().ptr()->parameters()) parameters.push_back(each);
      flops_ += train::count_flops(*models_.back().ptr(), part.size, input.tp);
      work_.emplace(stage, count_work(part, *models_.back().ptr()));
      stages.push_back(make_stage(stage, group));
    }
    if (zero1_.empty()) {
      optimizer_.emplace(std::move(parameters));
    } else {
      std::vector<std::shared_ptr<tp::ParamAndGradBucket>> buckets;
      for (const auto& each : zero1_) std::ranges::copy(each->buckets(), back_inserter(buckets));
      distributed_optimizer_.emplace(torch, std::move(buckets), make_adamw);
    }
    schedule_.emplace(
        stages, input.microbatches,
        [this](const Tensor& logits, const Tensor& targets) {
          return stage_loss_of(torch_, input_, logits, targets);
        },
        lists);
    tokens_.assign(static_cast<std::size_t>(input.microbatches), make_tokens(torch, input));
  }

  // Ranks begin together, so that none is ahead of the others by what it had less to do before.
  RankStep step() {
    torch_.ahbm.synchronize();
    torch_.distributed.barrier();
    meter_.begin();
    const auto began = nn::parallel::device_instant(torch_, torch_.ahbm.current_device());
    schedule_->step(tokens_, tokens_);
    if (zero1_.empty()) {
      update();
    } else {
      update_zero1();
    }
    const auto ended = nn::parallel::device_instant(torch_, torch_.ahbm.current_device());
    torch_.ahbm.synchronize();
    return {.times = nn::parallel::step_between(*began, *ended),
            .mesh = meter_.end(),
            .actions = schedule_->last_step(),
            .peak = torch_.ahbm.max_memory_allocated(),
            .flops = flops_,
            .work = work_};
  }

 private:
  // Makes a stage of the last model's replicas.
  PipelineStage make_stage(int stage, const distributed::ProcessGroup& group) {
    const PipelineStageOptions options{.group = group};
    if (input_.scheme == Scheme::zero1) {
      zero1_.push_back(make_zero1(torch_, input_, models_.back()));
      return PipelineStage(torch_, zero1_.back(), stage, input_.stages(), options);
    }
    nn::parallel::DistributedDataParallelOptions of_ddp{.bucket_cap_mb = input_.bucket_cap_mb};
    of_ddp.process_group = tp::get_data_parallel_group(torch_);
    const nn::parallel::DistributedDataParallel replicas(models_.back(), of_ddp);
    return PipelineStage(torch_, replicas, stage, input_.stages(), options);
  }

  void update() {
    for (const ModelHolder& model : models_) {
      tp::allreduce_sequence_parallel_gradients(torch_, tp::parallel_parameters(*model.ptr()));
    }
    optimizer_->step();
    optimizer_->zero_grad();
  }
  void update_zero1() {
    for (const auto& each : zero1_) tp::finalize_model_grads(each);
    distributed_optimizer_->step();
    for (const auto& each : zero1_) each->zero_grad_buffer();
  }

  RuntimeContext& torch_;
  const StepInput& input_;
  MeshMeter meter_;
  std::vector<ModelHolder> models_;
  std::vector<tp::DistributedDataParallel<ModelHolder>> zero1_;  // replicas of the models, or none
  std::optional<optim::AdamW> optimizer_;
  std::optional<tp::MegatronOptimizer> distributed_optimizer_;  // with ZeRO-1
  std::optional<PipelineScheduleRuntime> schedule_;
  std::vector<Tensor> tokens_;
  double flops_ = 0;
  std::map<int, Work> work_;
};

// Returns how long a message takes from when both ranks have begun it, if each rank of so many
// replicas of the pipeline sends to the one so many stages behind it, where the schedule has one.
Time measure_transfers(RuntimeContext& torch, const StepInput& input, int stages, int replicas) {
  const int own = torch.distributed.get_rank();
  const int per_stage = input.world / input.pp;
  const bool is_round = sends_round(input);
  const auto rank_behind = [&](int by) -> std::optional<int> {
    const int stage = own / per_stage + by;
    if (!is_round && (stage < 0 || stage >= input.pp)) return std::nullopt;
    return (own + (input.pp + by) * per_stage) % input.world;
  };
  const Tensor sent = make_between(torch, input);
  const Tensor received = make_between(torch, input);
  torch.ahbm.synchronize();
  torch.distributed.barrier();
  if (own % per_stage >= replicas * input.tp) return {};
  const Time begin = simulation_of(torch).now();
  std::optional<distributed::Work> coming;
  std::optional<distributed::Work> going;
  if (const auto from = rank_behind(-stages)) coming = torch.distributed.irecv(received, *from);
  if (const auto to = rank_behind(stages)) going = torch.distributed.isend(sent, *to);
  if (coming) coming->wait();
  const Time transfer = coming ? simulation_of(torch).now() - begin : Time{0};
  if (going) going->wait();
  return transfer;
}

// The step lasts from the first rank's begin to the last one's end.
MeasuredStep summarize(const std::vector<RankStep>& ranks) {
  Time begin = Time::max();
  Time end{0};
  Time computed_end{0};
  Time computed{0};
  MeasuredStep measured;
  for (const RankStep& rank : ranks) {
    begin = std::min(begin, rank.times.begin);
    end = std::max(end, rank.times.end);
    for (const ActionTime& each : rank.actions) computed_end = std::max(computed_end, each.end);
    computed += rank.computed();
    measured.peak = std::max(measured.peak, rank.peak);
    measured.flops += rank.flops / static_cast<double>(ranks.size());
  }
  measured.time = end - begin;
  measured.bubble = computed_end - begin - computed / static_cast<std::int64_t>(ranks.size());
  measured.mesh = ranks.front().mesh;
  measured.later = ranks.front().times;
  measured.later.idle += measured.time - (measured.later.end - measured.later.begin);
  measured.later.begin = begin;
  measured.later.end = end;
  return measured;
}

// A rank begins when the stages before its first one have had a micro-batch, and then does all of
// its work.
Time bound_of(const Topology& topology, const StepInput& input,
              const std::vector<RankStep>& ranks) {
  std::map<int, Work> stages;
  for (const RankStep& rank : ranks) stages.insert(rank.work.begin(), rank.work.end());
  Time bound{0};
  for (const RankStep& rank : ranks) {
    Work before;
    for (const auto& [stage, work] : stages) {
      if (stage < rank.work.begin()->first) before.products += work.forward / input.microbatches;
    }
    Work own;
    for (const auto& [stage, work] : rank.work) {
      own.products += work.products;
      own.bytes += work.bytes;
    }
    bound = std::max(
        bound, step_bound(topology, input, before, {}) + step_bound(topology, input, own, {}));
  }
  return bound;
}

}  // namespace

ActionLists list_actions(const StepInput& input) {
  return input.schedule->lists(
      {.stages = input.stages(), .ranks = input.pp, .microbatches = input.microbatches});
}

bool splits_backward(const ActionLists& lists) {
  return std::ranges::any_of(lists, [](const std::vector<Action>& list) {
    return std::ranges::any_of(
        list, [](const Action& each) { return each.kind == ActionKind::backward_input; });
  });
}

bool sends_round(const StepInput& input) {
  return std::ranges::any_of(list_actions(input).front(),
                             [&](const Action& action) { return action.stage == input.pp; });
}

MeasuredStep measure_pipeline_step(PointContext& point, const StepInput& input,
                                   const Topology& topology) {
  std::vector<RankStep> ranks(static_cast<std::size_t>(input.world));
  run_on_ranks(point, input, topology, [&](RuntimeContext& torch, int rank) {
    PipelineRanks own(torch, input);
    own.step();
    own.step();
    RankStep& step = ranks[static_cast<std::size_t>(rank)];
    step = own.step();
    if (rank == 0) profiler::timed(torch, "step 3", step.times.begin, step.times.end);
  });
  MeasuredStep measured = summarize(ranks);
  measured.bound = bound_of(topology, input, ranks);
  return measured;
}

pipeline::MessageTimes measure_messages(PointContext& point, const StepInput& input,
                                        const Topology& topology) {
  pipeline::MessageTimes message;
  Time together{0};
  run_on_ranks(point, input, topology, [&](RuntimeContext& torch, int) {
    for (const int stages : {1, -1}) {
      message.transfer = std::max(message.transfer, measure_transfers(torch, input, stages, 1));
      together = std::max(together, measure_transfers(torch, input, stages, input.dp()));
    }
    const int device = torch.ahbm.current_device();
    message.host_leg = simulation_of(torch).machine().launcher().host_leg(device);
  });
  message.occupied =
      input.dp() == 1 ? message.transfer : (together - message.transfer) / (input.dp() - 1);
  return message;
}

}  // namespace kernbench::benches::ddp
