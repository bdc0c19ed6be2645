// The lists of actions of torch.distributed.pipelining's schedules.

#pragma once

#include "runtime/pipelining/action.h"

namespace kernbench::distributed::pipelining {

// Stage s is on rank s % ranks, so that `stages` is a multiple of `ranks`.
struct PipelineSize {
  int stages = 1;
  int ranks = 1;
  int microbatches = 1;
};

// Forward and backward of each rank, without messages.  With p ranks, m micro-batches, and times f
// and b of a whole rank's part of the model, a step without communication takes
//
//   gpipe, one_f_one_b  (m + p - 1) (f + b)
//   interleaved         m (f + b) + (p - 1) (f + b) / v, for v stages a rank and p dividing m
//
// and rank r keeps the activations of at most m, of min(m, p - r) micro-batches, and of
// min(m v, 2 (p - 1 - r) + (v - 1) p + 1) stages of 1 / v of its part.
//
// Throw CollectiveError KB-C024, in torch's words, if the numbers do not fit the schedule.
ActionLists gpipe(const PipelineSize& size);        // one stage a rank
ActionLists one_f_one_b(const PipelineSize& size);  // one stage a rank
ActionLists interleaved(const PipelineSize& size);  // several stages a rank, Megatron's order
ActionLists looped_bfs(const PipelineSize& size);   // several stages a rank

// Returns lists that send what the next stage computes with, right after it was computed, and
// begin each receive `receives_ahead` computations before the one that needs it, so that a message
// travels while its receiver computes; each that is begun holds a buffer.  Nothing is sent between
// stages of one rank.
// REQUIRES: there are no messages in `computations`; receives_ahead >= 0
ActionLists add_messages(const ActionLists& computations, int receives_ahead = 1);

bool has_messages(const ActionLists& lists);

}  // namespace kernbench::distributed::pipelining
