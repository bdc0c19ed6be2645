// Training whose bits do not depend on the number of ranks: each step is cut into as many
// micro-batches of one shape, however many ranks there are to compute them (ADR-0222).
//
//   RuntimeContext torch(topology, {.reproducible = Reproducible::pairs});
//   ...
//   nn::parallel::MicroBatches micro(torch, {.count = 16});
//   for (int round = 0; round < micro.rounds(); ++round) {
//     loss(ddp(micro.of(x, round)), micro.of(y, round)).backward();
//     micro.take(model->parameters());
//   }
//   optimizer.step();
//
// Equal shapes have equal bits on any rank, and all sums over micro-batches are one tree: round i
// has the W micro-batches [i W, (i + 1) W), one on each rank, which Reproducible::pairs adds up in
// pairs, and take() goes on with the rounds.  So the gradients have the same bits for 1, 2, 4, ...
// ranks, up to `count`, unless a gradient of f16 overflows or ends below 2^-14, since ranks divide
// before they add and rounds afterwards.  Ranks of a group that reduces first, such as HSDP's
// shards, must follow each other.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn::parallel {

struct MicroBatchesOptions {
  int count = 16;                                // of a step, over all ranks
  distributed::ProcessGroup process_group = {};  // over which gradients are reduced
};

class MicroBatches {
 public:
  // Called by each rank.  Throws CollectiveError KB-C020 unless `count` and the number of ranks are
  // powers of two, of which the first is no smaller, and the sums over ranks are of level
  // Reproducible::pairs.
  explicit MicroBatches(RuntimeContext& torch, const MicroBatchesOptions& options = {});

  int rounds() const { return count_ / ranks_; }  // of a step
  // The number of this rank's micro-batch in a round: a seed for its random numbers.
  int index(int round) const { return round * ranks_ + rank_; }
  // The samples of that micro-batch, a view.  The batch is that of all ranks, along dimension 0;
  // throws KB-C020 unless `count` divides it, or for another round, and KB-F003 if PEs share its
  // rows: then each micro-batch is made by its index().
  Tensor of(const Tensor& batch, int round) const;

  // Takes the gradients of a round, over which ranks have a mean.  After the last one grad() of
  // each parameter is the mean over all micro-batches; before that it is undefined.  A parameter
  // without a gradient in some rounds counts as zero there.
  // Throws CollectiveError KB-C020 if no parameter has a gradient, or if a step's rounds give
  // different parameters.
  void take(const std::vector<Tensor>& parameters);

 private:
  using Gradients = std::vector<Tensor>;

  void check_are_the_same(const std::vector<Tensor>& parameters);
  void add(Gradients gradients);

  const int count_;
  const int ranks_;
  const int rank_;
  int taken_ = 0;                   // rounds
  std::vector<Tensor> parameters_;  // of the step
  std::vector<Gradients> partial_;  // sums of 2^i rounds; empty where there is none
};

}  // namespace kernbench::nn::parallel
