#include "runtime/context_parallel/tokens.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/distributed/distributed.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::experimental {

namespace {

// The chunk of 2 P that is a rank's second one.
int late_chunk(const Ring& ring, int rank) {
  return 2 * ring.size - 1 - rank;
}

}  // namespace

Tensor tokens_of_rank(const Tensor& whole, int dim, const Ring& ring) {
  const std::int64_t tokens = whole.size(dim);
  const std::int64_t chunks = ring.order == TokenOrder::head_tail ? 2 * ring.size : ring.size;
  if (tokens == 0 || tokens % chunks != 0) {
    throw CollectiveError("KB-C025",
                          "Sequence length ({}) is not divided by the {} chunks of {} ranks in the "
                          "order {}: {}",
                          tokens, chunks, ring.size, name_of(ring.order), to_string(whole.shape()));
  }
  const std::int64_t each = tokens / chunks;
  switch (ring.order) {
    case TokenOrder::contiguous:
      break;
    case TokenOrder::head_tail:
      return cat({narrow(whole, dim, ring.rank * each, each),
                  narrow(whole, dim, late_chunk(ring, ring.rank) * each, each)},
                 dim);
    case TokenOrder::striped:
      return clone(slice(whole, dim, ring.rank, tokens, ring.size));
  }
  return clone(narrow(whole, dim, ring.rank * each, each));
}

Tensor gather_tokens(const Tensor& part, int dim, const Ring& ring) {
  const runtime::MadeAs results(simulation_of(ring.torch), MemoryKind::temporary);
  const Tensor own = contiguous(part);
  std::vector<Tensor> parts;
  for (int rank = 0; rank < ring.size; ++rank) parts.push_back(ring.torch.empty_like(own));
  ring.torch.distributed.all_gather(parts, own, {.group = ring.group});
  const int at = dim < 0 ? dim + static_cast<int>(own.dim()) : dim;
  switch (ring.order) {
    case TokenOrder::contiguous:
      break;
    case TokenOrder::striped:
      return flatten(stack(parts, at + 1), at, at + 1);
    case TokenOrder::head_tail: {
      if (own.size(at) % 2 != 0) {
        throw CollectiveError("KB-C025",
                              "{} tokens of a rank are no two chunks, as head_tail has: give the "
                              "order that context_parallel() returned",
                              own.size(at));
      }
      const std::int64_t each = own.size(at) / 2;
      std::vector<Tensor> chunks(2 * parts.size());
      for (int rank = 0; rank < ring.size; ++rank) {
        const Tensor& of = parts[static_cast<std::size_t>(rank)];
        chunks[static_cast<std::size_t>(rank)] = narrow(of, at, 0, each);
        chunks[static_cast<std::size_t>(late_chunk(ring, rank))] = narrow(of, at, each, each);
      }
      return cat(chunks, at);
    }
  }
  return cat(parts, at);
}

}  // namespace kernbench::experimental
