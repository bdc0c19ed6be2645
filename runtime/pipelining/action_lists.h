// The lists of actions of torch.distributed.pipelining's schedules.

#pragma once

#include "runtime/pipelining/action.h"

namespace kernbench::distributed::pipelining {

struct PipelineSize {
  int stages = 1;
  int ranks = 1;
  int microbatches = 1;
};

// Forward and backward of each rank, without messages.  `stages` is a multiple of `ranks`, and
// stage s is on rank s % ranks.  With p ranks, m micro-batches, and times f and b of a whole rank's
// part of the model, a step without communication takes
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
// With twice the warm-up (Zhuang et al., arXiv 2211.05322): messages of up to f hide behind
// forwards, and rank r keeps min(m, 2 (p - r) - 1) micro-batches.
ActionLists eager_one_f_one_b(const PipelineSize& size);  // one stage a rank
ActionLists interleaved(const PipelineSize& size);        // several stages a rank, Megatron's order
ActionLists looped_bfs(const PipelineSize& size);         // several stages a rank

// The same with backwards in halves, i for the input and w for the weights, so that weights fill
// what would be a bubble (Qi et al., arXiv 2401.10241).  A step takes
//
//   zb_h1  m (f + i + w) + (p - 1) (i + max(0, f - w)), where m is p at least
//   zb_h2  m (f + i + w) + (p - 1) f, where m is 2 p - 1 at least and i < f + w; rank r is idle
//          within its own part for (p - 1 - r) max(0, i - f, f + i - 2 w)
//
// and rank r keeps the activations of at most min(m, p - r) micro-batches with zb_h1, and of
// min(m, 2 (p - r) - 1) with zb_h2; what halves for weights need beyond that is kept until they
// run.
ActionLists zb_h1(const PipelineSize& size);  // one stage a rank
ActionLists zb_h2(const PipelineSize& size);  // one stage a rank, warm-up twice that of 1F1B
// zb_h1 of several stages a rank: torch's InterleavedZeroBubble.
ActionLists interleaved_zero_bubble(const PipelineSize& size);

// Two stages a rank, rank r having r and 2 p - 1 - r, so that the loss is on rank 0 (torch's
// ZBVZeroBubble and DualPipeV).  With f = i = w of a stage, and 2 p - 1 micro-batches at least, a
// rank of zbv_zero_bubble is never idle between its first computation and its last one.
ActionLists zbv_zero_bubble(const PipelineSize& size);
ActionLists dual_pipe_v(const PipelineSize& size);  // at least as many micro-batches as stages

// Returns lists that send what the next stage computes with, right after it was computed, and
// begin each receive `receives_ahead` actions before the one that needs it, so that a message
// travels while its receiver computes; each that is begun holds a buffer.  Nothing is sent between
// stages of one rank.
// REQUIRES: there are no messages in `computations`; receives_ahead >= 0
ActionLists add_messages(const ActionLists& computations, int receives_ahead = 1);

bool has_messages(const ActionLists& lists);

}  // namespace kernbench::distributed::pipelining
