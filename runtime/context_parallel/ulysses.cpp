#include "runtime/context_parallel/ulysses.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/distributed.h"
#include "runtime/functional/attention_parts.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::experimental {

namespace {

using ops::AttentionInputs;
using ops::AttentionResult;
using ops::PackedAttention;

// The rows of each rank's tokens, of the caller's heads.
using Parts = std::vector<Tensor>;

class HeadExchange {
 public:
  HeadExchange(const Ring& ring, const ops::PackedLayout& layout) : ring_(ring), layout_(layout) {}

  // From the caller's tokens of all heads.
  Parts to_heads(const Tensor& tokens) const {
    const Tensor x = with_heads(tokens);
    const std::int64_t each = x.size(1) / ring_.size;
    Parts of_heads;
    for (int rank = 0; rank < ring_.size; ++rank) {
      of_heads.push_back(contiguous(narrow(x, 1, rank * each, each)));
    }
    Parts parts;
    for (const Tensor& part : exchange(of_heads)) parts.push_back(packed(part, tokens.size(-1)));
    return parts;
  }
  Tensor to_tokens(const Parts& parts) const {
    Parts given;
    for (const Tensor& part : parts) given.push_back(with_heads(part));
    return packed(cat(exchange(given), 1), parts.front().size(-1));
  }

 private:
  Parts exchange(const Parts& given) const {
    Parts taken;
    for (const Tensor& part : given) taken.push_back(ring_.torch.empty_like(part));
    ring_.torch.distributed.all_to_all(taken, given, {.group = ring_.group});
    return taken;
  }
  // Heads are the second dimension of packed rows, or become it.
  Tensor with_heads(const Tensor& x) const {
    if (!layout_.are_heads_rows) return x;
    return reshape(x, {layout_.batches, -1, layout_.rows * x.size(-1)});
  }
  Tensor packed(const Tensor& x, std::int64_t depth) const {
    return !layout_.are_heads_rows ? x : reshape(x, {-1, 1, depth});
  }

  Ring ring_;
  ops::PackedLayout layout_;
};

// Backward needs these of forward.  A part has the tokens of one rank, of the caller's heads.
struct Attended {
  PackedAttention attention;
  std::vector<AttentionInputs> inputs = {};
  std::vector<AttentionResult> results = {};
};

// All ranks' tokens of each sequence, of which each rank has as many, of a share of the heads.
PackedAttention of_all_tokens(const Ring& ring, PackedAttention own) {
  own.heads /= ring.size;
  own.key_heads /= ring.size;
  own.layout.batches = std::ssize(own.sequences);
  own.layout.rows = own.sequences.front().query_rows;
  const std::int64_t tokens = own.layout.rows * ring.size;
  std::int64_t first = 0;
  for (ops::PackedSequence& of : own.sequences) {
    of = {first, tokens, first, tokens};
    first += tokens;
  }
  return own;
}

void check_shares(const Ring& ring, const PackedAttention& attention) {
  if (attention.key_heads % ring.size != 0) {
    throw CollectiveError("KB-C025",
                          "Ulysses deals heads out to ranks: {} ranks do not divide {} heads of "
                          "key and value",
                          ring.size, attention.key_heads);
  }
  const std::int64_t rows = attention.sequences.front().query_rows;
  for (const ops::PackedSequence& of : attention.sequences) {
    if (of.query_rows == rows) continue;
    throw CollectiveError("KB-C025",
                          "Ulysses wants sequences of one length: ranks have {} and {} tokens",
                          rows, of.query_rows);
  }
}

std::shared_ptr<Attended> attend(const Ring& ring, const HeadExchange& exchange,
                                 const PackedAttention& own, const AttentionInputs& of_tokens) {
  const runtime::MadeAs results(simulation_of(ring.torch), MemoryKind::temporary);
  auto attended = std::make_shared<Attended>(Attended{of_all_tokens(ring, own)});
  const Parts query = exchange.to_heads(of_tokens.query);
  const Parts key = exchange.to_heads(of_tokens.key);
  const Parts value = exchange.to_heads(of_tokens.value);
  for (std::size_t i = 0; i < query.size(); ++i) {
    const Tensor& q = query[i];
    attended->inputs.push_back({q, key[i], value[i]});
    attended->results.push_back(
        {ring.torch.empty_like(q),
         ring.torch.empty({q.size(0), q.size(1)}, {.dtype = DType::f32, .dp = q.dp()})});
  }
  ops::attend_into(attended->attention, attended->inputs, attended->results);
  return attended;
}

std::vector<Tensor> differentiate(const Ring& ring, const Attended& attended,
                                  const HeadExchange& exchange, const Tensor& dy) {
  const Parts dy_parts = exchange.to_heads(dy);
  ops::BackwardParts parts;
  for (std::size_t i = 0; i < dy_parts.size(); ++i) {
    const auto& [query, key, value] = attended.inputs[i];
    parts.add(
        attended.inputs[i], attended.results[i], dy_parts[i],
        {ring.torch.empty_like(query), ring.torch.empty_like(key), ring.torch.empty_like(value)});
  }
  ops::attend_backward_into(attended.attention, parts);
  return {exchange.to_tokens(parts.of_query), exchange.to_tokens(parts.of_key),
          exchange.to_tokens(parts.of_value)};
}

}  // namespace

Tensor ulysses_attention(const Ring& ring, const PackedAttention& own,
                         const AttentionInputs& inputs) {
  check_shares(ring, own);
  const HeadExchange exchange(ring, own.layout);
  std::shared_ptr<const Attended> attended;
  Tensor output;
  {
    const NoGradGuard no_grad(ring.torch);
    attended = attend(ring, exchange, own, inputs);
    output = exchange.to_tokens(ops::parts_of(attended->results, &AttentionResult::output));
  }
  const auto& [query, key, value] = inputs;
  if (!autograd::needs_grad(query, key, value)) return output;
  return autograd::record("ulysses_attention", output, {query, key, value},
                          [ring, attended, exchange](const Tensor& dy) {
                            return differentiate(ring, *attended, exchange, contiguous(dy));
                          });
}

}  // namespace kernbench::experimental
