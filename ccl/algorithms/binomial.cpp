#include "ccl/algorithms/binomial.h"

#include <algorithm>
#include <bit>

namespace kernbench::ccl {

namespace {

int log2_of(int size) {
  return std::countr_zero(static_cast<unsigned>(size));
}

// The part of a member in the tree to `taker`: it adds up the members 1, 2, 4, ... away from it, as
// long as these are farther from the taker than itself, and sends the sum to the next one.
void add_to_taker(const PlanRequest& request, int taker, Plan& plan) {
  const int self = request.self;
  const int steps = self == taker ? log2_of(request.shape.size) : log2_of(self ^ taker);
  ChunkRange chunks;
  if (request.kind == Plan::Kind::reduce_scatter) chunks.taker = taker;
  if (request.kind == Plan::Kind::all_reduce) chunks = {taker, taker + 1};
  for (int step = 0; step == 0 || step < steps; ++step) {
    Move move;
    move.chunks = chunks;
    move.has_source = step == 0;
    if (step > 0) move.held = {static_cast<int>(plan.moves.size()) - 1};
    if (step < steps) {
      move.time = step + 1;
      move.from = {self ^ (1 << step)};
    }
    plan.moves.push_back(move);
  }
  Move& sum = plan.moves.back();
  if (self != taker) {
    sum.to = {self ^ (1 << steps)};
    return;
  }
  sum.is_complete = sum.stores = true;
}

// The taker's sum goes straight to all others.
void give_to_all(const PlanRequest& request, int taker, Plan& plan) {
  const int self = request.self;
  const int size = request.shape.size;
  if (self == taker) {
    for (int i = 1; i < size; ++i) plan.moves.back().to.push_back((self + i) % size);
    return;
  }
  Move& move = plan.moves.emplace_back();
  move.time = log2_of(size) + 1;
  move.stage = (self - taker + size) % size;
  move.chunks = {taker, taker + 1};
  move.from = {taker};
  move.stores = true;
}

}  // namespace

void plan_binomial(const PlanRequest& request, Plan& plan) {
  const int size = request.shape.size;
  const bool is_for_all = request.kind == Plan::Kind::all_reduce;
  plan.length = log2_of(size) + (is_for_all ? 2 : 1);
  if (request.kind == Plan::Kind::reduce) return add_to_taker(request, request.root, plan);
  if (is_for_all) plan.chunk_count = size;
  plan.width = std::max(size - 1, 1);
  for (int taker = 0; taker < size; ++taker) {
    add_to_taker(request, taker, plan);
    if (is_for_all) give_to_all(request, taker, plan);
  }
}

std::string_view misfit_of_binomial(const GroupShape& shape) {
  return std::has_single_bit(static_cast<unsigned>(shape.size)) ? "" : "it needs a power of two";
}

}  // namespace kernbench::ccl
