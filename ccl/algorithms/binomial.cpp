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
  if (self == taker) {
    sum.is_complete = sum.stores = true;
  } else {
    sum.to = {self ^ (1 << steps)};
  }
}

}  // namespace

void plan_binomial(const PlanRequest& request, Plan& plan) {
  const int size = request.shape.size;
  plan.length = log2_of(size) + 1;
  if (request.kind == Plan::Kind::reduce) return add_to_taker(request, request.root, plan);
  plan.width = std::max(size / 2, 1);
  for (int taker = 0; taker < size; ++taker) add_to_taker(request, taker, plan);
}

std::string_view misfit_of_binomial(const GroupShape& shape) {
  return std::has_single_bit(static_cast<unsigned>(shape.size)) ? "" : "it needs a power of two";
}

}  // namespace kernbench::ccl
