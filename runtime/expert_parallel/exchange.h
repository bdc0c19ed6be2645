// How the rows of tokens come to their experts: what the host plans, and each rank's part of it.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/expert_parallel/expert_parallel.h"
#include "runtime/expert_parallel/row_moves.h"

namespace kernbench::moe {

// A slot is a pair of a token and one of its experts, token top_k + choice.
struct SendPlan {
  RowSources slots;                  // of each row that is sent, by expert; kNoRow: padding
  std::vector<std::int64_t> counts;  // rows for each expert
  std::int64_t kept = 0;
  std::int64_t capacity = 0;  // 0: none
};

struct Slots {
  std::span<const std::int64_t> experts;  // of each slot; -1: none
  std::span<const float> weights;         // of each slot; empty: all are equal
  std::int64_t num_experts = 1;
};
SendPlan plan_sends(const Slots& slots, const DispatchOptions& options);

// For each of `size` elements the place where the plan has it, or kNoRow.
RowSources inverse_of(const RowSources& sources, std::int64_t size);

struct Exchange {
  distributed::ProcessGroup group;
  int ranks = 1;
  std::int64_t tokens = 0;
  std::int64_t top_k = 1;
  SendPlan sends;
  RowSources rows_of_slots;               // the row that was sent for each slot
  std::vector<std::int64_t> sent;         // rows to each rank
  std::vector<std::int64_t> received;     // rows from each rank
  std::vector<std::int64_t> received_by;  // rows that each expert of this rank got
  RowSources by_expert;                   // received rows in the order of experts
  RowSources by_sender;                   // the inverse
  Tensor topk_weights;
  Time host_reads{0};  // see ExchangeSizes

  // Rows of slots, in the order in which they are sent, to the experts, and the way back.
  Tensor to_experts(const Tensor& rows) const;
  Tensor from_experts(const Tensor& rows) const;

  // Sets what follows from the rows that each rank sends to each of this rank's experts, rank by
  // rank.
  void receive(std::span<const std::int64_t> counts);
};

}  // namespace kernbench::moe
