// torch.distributed.pipelining's schedules: they cut a batch into micro-batches and run them
// through the stages of all ranks, forward and backward.
//
//   using namespace kb::distributed::pipelining;
//   PipelineStage stage(torch, block, rank, 4);
//   Schedule1F1B schedule(stage, 8, kb::nn::functional::mse_loss);
//   std::vector<kb::Tensor> losses;
//   if (rank == 0) schedule.step(x);
//   else if (rank == 3) schedule.step({.target = y, .losses = &losses});
//   else schedule.step();
//
// A schedule is a list of actions for each rank; one executor runs them all.

#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/pipelining/action.h"
#include "runtime/pipelining/action_lists.h"
#include "runtime/pipelining/action_times.h"
#include "runtime/pipelining/pipeline_stage.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::distributed::pipelining {

struct ScheduleOptions {
  // The gradients of parameters are divided by the number of micro-batches after the last of them,
  // as fits a loss that is a mean over samples.
  bool scale_grads = true;
};

struct StepOptions {
  Tensor target = {};                      // of the whole batch, on the rank of the last stage
  std::vector<Tensor>* losses = nullptr;   // become those of the micro-batches, there
  std::vector<Tensor>* outputs = nullptr;  // likewise; torch's merged outputs, before cat()
};

class PipelineSchedule {
 public:
  // Runs forward and backward of the batch; without a loss_fn forward alone.  Gradients are added
  // to those of the parameters.  The rank of the first stage gives `x`, of which the first
  // dimension is cut.  All ranks of the group call it; it returns when the rank's sends are
  // done, while its last computations may still be queued.
  // Throws CollectiveError KB-C024 for a batch that is not given, or not divisible.
  void step(const Tensor& x, const StepOptions& options = {});
  void step(const StepOptions& options = {}) { step(Tensor(), options); }
  // The same of a batch that is cut already, as it must be where PEs share its rows: on the ranks
  // of the first and the last stage, a tensor for each micro-batch.
  void step(const std::vector<Tensor>& inputs, const std::vector<Tensor>& targets,
            const StepOptions& options = {});

  const ActionLists& actions() const { return lists_; }
  // The micro-batches whose activations each stage keeps at most, by stage.
  const std::vector<int>& peak_microbatches() const { return peaks_; }
  // The same added up over the stages of each rank.
  const std::vector<int>& peaks_of_ranks() const { return peaks_of_ranks_; }
  // The micro-batches whose backward for the input is done, and for the weights is not, at most, on
  // each rank.
  const std::vector<int>& peaks_of_weights() const { return peaks_of_weights_; }
  // When the caller's device has done each computation of the last step, in its order.
  // REQUIRES: it has done all (ahbm.synchronize())
  std::vector<ActionTime> last_step() const { return times_.of_step(); }

 protected:
  // Throws CollectiveError KB-C024 and DeadlockError KB-D005 for lists that do not run.
  PipelineSchedule(const std::vector<PipelineStage>& stages, int n_microbatches,
                   LossFunction loss_fn, ActionLists lists, const ScheduleOptions& options);
  // The number of stages, ranks and micro-batches that a schedule of these stages has.
  static PipelineSize size_of(const std::vector<PipelineStage>& stages, int n_microbatches);

 private:
  StageState* own_stage(int index) const;
  std::vector<Tensor> cut(const Tensor& batch, std::string_view name) const;
  void initialize_stages();
  void initialize_stage(int index);
  void set_microbatches(const std::vector<Tensor>& inputs, const std::vector<Tensor>& targets);
  void check_count(const std::vector<Tensor>& given, std::string_view name) const;
  void run(const Action& action);
  void communicate(StageState& stage, const Action& action);
  void compute(StageState& stage, const Action& action);
  const std::vector<Action>& own_list() const { return lists_[static_cast<std::size_t>(rank_)]; }
  int rank_of(int stage) const { return rank_of_stage_[static_cast<std::size_t>(stage)]; }

  const std::vector<PipelineStage> stages_;
  const int n_microbatches_;
  const LossFunction loss_fn_;
  const ActionLists lists_;
  const ScheduleOptions options_;
  int rank_ = 0;
  std::vector<int> rank_of_stage_;
  std::vector<int> peaks_;
  std::vector<int> peaks_of_ranks_;
  std::vector<int> peaks_of_weights_;
  ActionTimes times_;
  bool is_initialized_ = false;
};

// A schedule whose computations are those of a function of action_lists.h.
template <ActionLists (*kLists)(const PipelineSize& size)>
struct NamedSchedule : PipelineSchedule {
  NamedSchedule(const std::vector<PipelineStage>& stages, int n_microbatches,
                LossFunction loss_fn = {}, const ScheduleOptions& options = {})
      : PipelineSchedule(stages, n_microbatches, std::move(loss_fn),
                         add_messages(kLists(size_of(stages, n_microbatches))), options) {}
  NamedSchedule(const PipelineStage& stage, int n_microbatches, LossFunction loss_fn = {},
                const ScheduleOptions& options = {})
      : NamedSchedule(std::vector{stage}, n_microbatches, std::move(loss_fn), options) {}
};

// These take one stage of a rank.
using ScheduleGPipe = NamedSchedule<gpipe>;       // all micro-batches forward, then all backward
using Schedule1F1B = NamedSchedule<one_f_one_b>;  // in turns, after p - 1 - s forwards of stage s

// These take several stages of a rank: rank r has stages r, r + p, ...
using ScheduleInterleaved1F1B = NamedSchedule<interleaved>;
using ScheduleInterleavedZeroBubble = NamedSchedule<interleaved_zero_bubble>;
using ScheduleLoopedBFS = NamedSchedule<looped_bfs>;  // micro-batches through one after the other

// These take two stages of a rank: rank r has stages r and 2 p - 1 - r.
using ScheduleZBVZeroBubble = NamedSchedule<zbv_zero_bubble>;
using ScheduleDualPipeV = NamedSchedule<dual_pipe_v>;

// Any lists: those of parse_actions(), of torch or of the user.  Lists without messages get them
// by add_messages().
struct PipelineScheduleRuntime : PipelineSchedule {
  PipelineScheduleRuntime(const std::vector<PipelineStage>& stages, int n_microbatches,
                          LossFunction loss_fn, const ActionLists& lists,
                          const ScheduleOptions& options = {});
};

}  // namespace kernbench::distributed::pipelining
