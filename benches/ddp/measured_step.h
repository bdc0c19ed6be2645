// Steps of a language model that is trained data parallel, on a rank per SIP.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/pipeline/event_program.h"
#include "benches/pipeline/named_schedules.h"
#include "benches/train/parallel_language_model.h"
#include "benches/train/recomputation.h"
#include "benches/train/training.h"
#include "runtime/parallel/logging_data.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::ddp {

enum class Scheme {
  ddp,    // torch's DistributedDataParallel: an all_reduce of each bucket
  zero1,  // Megatron's, with its distributed optimizer: a reduce_scatter, and an all_gather later
  fsdp2,  // torch's fully_shard: an all_gather of each group in both passes, and a reduce_scatter
};
std::string_view name_of(Scheme scheme);

// The collective that a row of a step's table is of.
std::string collective_name(Scheme scheme, const nn::parallel::BucketTimes& row);

// REQUIRES: micro-batches divide the batch, and the recomputation has no budget
struct StepInput {
  Scheme scheme = Scheme::ddp;
  train::ModelKind model = train::ModelKind::gpt;
  train::LanguageModelSize size = {};
  DType dtype = DType::f32;
  int world = 1;
  train::UsedPes on = {};     // of each rank's device
  double bucket_cap_mb = 25;  // of fsdp2: blocks share a group until it has so much
  // The ranks form a mesh: each `tp` neighbours share a model, in Megatron's layers.
  bool is_mesh = false;
  int tp = 1;
  train::ParallelOptions parallel = {};  // of a mesh
  int microbatches = 1;  // of a rank's samples; gradients are sent with the last one
  train::Recomputation recomputation = {};

  // With pp > 1 ranks form a mesh of as many groups of world / pp neighbours, each of which has a
  // stage, or `chunks` stages, of a pipeline: the ranks of the same place are one, by ddp.
  int pp = 1;
  int chunks = 1;
  const pipeline::NamedLists* schedule = nullptr;  // of a pipeline
  // All ranks run one of its stages, which `size` and `parallel` say, without the others.
  bool is_stage = false;
  bool splits_backward = false;  // of the stage, into halves

  bool finds_races = true;  // between streams

  int dp() const { return world / tp / pp; }
  int stages() const { return pp * chunks; }
  train::LanguageModelSize microbatch() const {
    train::LanguageModelSize one = size;
    one.batch /= microbatches;
    return one;
  }
};

// A rank's communication in a step along one axis of a mesh.
struct AxisUse {
  Time communicating{0};
  Time exposed{0};  // the part that no kernel overlaps
  Bytes bytes = 0;
  int collectives = 0;
};
struct MeshUse {
  AxisUse tp;
  AxisUse dp;
};

// When a bucket's collective can begin and have ended on all ranks at the earliest.
struct BucketBound {
  Time start{0};
  Time end{0};
};

// A pipeline's stage for itself.
struct StageStep {
  pipeline::CostsOfStage costs;
  Bytes held = 0;       // between two steps: parameters, buckets, states of the optimizer
  Bytes gradients = 0;  // after a pass
  Bytes pass = 0;       // the most that passes take beyond these, one after the other
  Bytes kept = 0;       // of a micro-batch, by the forward pass
};

struct MeasuredStep {
  // Steps of rank 0: the first one, of one pass, before buckets, or their gradients' number, are
  // known; and of its third one, the second pass, if it has three or more.
  nn::parallel::StepTimes first;
  nn::parallel::StepTimes later;
  nn::parallel::StepTimes middle;
  StageStep stage;  // likewise, of a pipeline's stage
  Time bubble{0};   // of a pipeline's step: until the last computation of all ranks, without the
                    // mean time in which a rank computes
  // They hold, for each bucket of the later step, when the last rank's part had ended, and the
  // bound of that.
  std::vector<Time> last_ended;
  std::vector<BucketBound> bounds;
  Time time{0};      // of the later step, from the first rank's begin to the last one's end
  Time bound{0};     // of that
  MeshUse mesh;      // of rank 0 in the later step, if the ranks form one
  double flops = 0;  // of a rank in a step
  Bytes peak = 0;    // the most that rank 0's device has held at a time, in the three steps
  bool are_below_cap = false;  // all buckets: with any larger cap the run would be the same
  // Ranks that are nearly alike leave out what their chunks cannot share equally, so times may be
  // up to 2 % less than their bounds.
  bool are_nearly_alike = false;

  bool keeps(Time ended, Time its_bound) const {
    return ended >= its_bound - (are_nearly_alike ? its_bound / 50 : Time{0});
  }
};

// The machine is one of input.world SIPs.
MeasuredStep measure_step(PointContext& point, const StepInput& input, const Topology& topology);

}  // namespace kernbench::benches::ddp
