#include "benches/stragglers/pipeline.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/ceil_divide.h"

namespace kernbench::benches::stragglers {

namespace {

constexpr std::int64_t kActivations = 4096;   // elements of a message
constexpr std::int64_t kGradients = 1 << 16;  // of a stage
constexpr std::int64_t kPicosecondsPerNs = 1000;

void compute_for(tl::Context& tl, const tl::Pointer& work, std::int64_t cycles) {
  const tl::Tensor x = tl.load(work, {cycles}, DType::f32);
  tl.store(work, x + x);
}

// A rank's part of the step.
class StageWorker {
 public:
  StageWorker(RuntimeContext& torch, const PassTimes& times, int rank)
      : torch_(torch),
        times_(times),
        rank_(rank),
        stage_(rank % times.stages()),
        work_(torch.zeros({longest(times) / kPicosecondsPerNs}, {.dp = DPPolicy::on_one_pe()})) {
    for (int i = 0; i < 2 * times.microbatches(); ++i) {
      messages_.push_back(torch.zeros({kActivations}, {.dp = DPPolicy::on_one_pe()}));
    }
  }

  // Activations go to the next stage, and gradients to the one before.
  void run(Pass pass, int microbatch) {
    const bool is_forward = pass == Pass::forward;
    const bool is_first = stage_ == 0;
    const bool is_last = stage_ == times_.stages() - 1;
    const Tensor& x =
        messages_[static_cast<std::size_t>((is_forward ? 0 : times_.microbatches()) + microbatch)];
    if (is_forward ? !is_first : !is_last) {
      torch_.distributed.recv(x, is_forward ? rank_ - 1 : rank_ + 1);
    }
    const std::int64_t cycles = times_.at(rank_, pass, microbatch).count() / kPicosecondsPerNs;
    torch_.launch(is_forward ? "forward" : "backward", compute_for, work_, cycles);
    torch_.ahbm.synchronize();
    if (is_forward ? !is_last : !is_first) {
      sends_.push_back(torch_.distributed.isend(x, is_forward ? rank_ + 1 : rank_ - 1));
    }
  }
  void wait_for_sends() {
    for (distributed::Work& send : sends_) send.wait();
  }

 private:
  static std::int64_t longest(const PassTimes& times) {
    Time most{0};
    for (int worker = 0; worker < times.workers(); ++worker) {
      for (int i = 0; i < times.microbatches(); ++i) {
        most = std::max(
            {most, times.at(worker, Pass::forward, i), times.at(worker, Pass::backward, i)});
      }
    }
    return most.count();
  }

  RuntimeContext& torch_;
  const PassTimes& times_;
  const int rank_;
  const int stage_;
  const Tensor work_;
  std::vector<Tensor> messages_;
  std::vector<distributed::Work> sends_;
};

// The group of a rank's stage; every rank makes all groups.
distributed::ProcessGroup group_of_stage(RuntimeContext& torch, const PassTimes& times, int rank) {
  std::optional<distributed::ProcessGroup> own;
  for (int stage = 0; stage < times.stages(); ++stage) {
    std::vector<int> members;
    for (int p = 0; p < times.pipelines(); ++p) members.push_back(p * times.stages() + stage);
    const distributed::ProcessGroup group = torch.distributed.new_group(members);
    if (stage == rank % times.stages()) own = group;
  }
  return own.value();
}

}  // namespace

PassTimes::PassTimes(int pipelines, int stages, int microbatches)
    : pipelines_(pipelines),
      stages_(stages),
      microbatches_(microbatches),
      times_(static_cast<std::size_t>(pipelines * stages * 2 * microbatches)) {}

Time PassTimes::sum(int worker) const {
  const auto first = times_.begin() + static_cast<std::ptrdiff_t>(index(worker, Pass::forward, 0));
  return std::accumulate(first, first + 2 * microbatches_, Time{0});
}

Time PassTimes::mean(Pass pass) const {
  Time all{0};
  for (int worker = 0; worker < workers(); ++worker) {
    for (int i = 0; i < microbatches_; ++i) all += at(worker, pass, i);
  }
  const std::int64_t count = std::int64_t{workers()} * microbatches_;
  return Time{sim::ceil_divide(all.count(), count * kPicosecondsPerNs) * kPicosecondsPerNs};
}

Topology pipeline_machine(int workers) {
  Topology machine = in_ring(Topology::load("zero_overhead"), workers);
  machine.pe.math_lanes = 1;
  machine.pe.math_clock = Frequency{1'000'000'000};
  return machine;
}

Time pipeline_time(PointContext& point, const PassTimes& times, const Topology& machine) {
  const auto torch = point.make_context(machine, {.ccl = point.bench().ccl(), .data = false});
  torch->distributed.init_process_group("ahbm");
  Time begin{0};
  run_on_devices(*torch, times.workers(), [&](int rank) {
    const distributed::ProcessGroup of_stage = group_of_stage(*torch, times, rank);
    StageWorker worker(*torch, times, rank);
    const Tensor gradients = torch->zeros({kGradients}, {.dp = DPPolicy::on_one_pe()});
    torch->distributed.barrier();
    begin = torch->engine().now();
    for (int i = 0; i < times.microbatches(); ++i) worker.run(Pass::forward, i);
    for (int i = times.microbatches(); i-- > 0;) worker.run(Pass::backward, i);
    worker.wait_for_sends();
    if (times.pipelines() > 1) torch->distributed.all_reduce(gradients, {.group = of_stage});
  });
  const Time end = torch->engine().now();
  torch->distributed.destroy_process_group();
  return end - begin;
}

}  // namespace kernbench::benches::stragglers
