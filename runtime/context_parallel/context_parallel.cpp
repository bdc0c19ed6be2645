#include "runtime/context_parallel/context_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/context_parallel/ring.h"
#include "runtime/context_parallel/ring_attention.h"
#include "runtime/context_parallel/tokens.h"
#include "runtime/context_parallel/ulysses.h"
#include "runtime/distributed/distributed.h"
#include "runtime/distributed/group.h"
#include "runtime/functional/attention_override.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/simulation/attachments.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::experimental {

namespace {

using nn::functional::AttentionOptions;
using ops::AttentionInputs;
using ops::PackedAttention;

struct RotateMethods final : runtime::PerRank<bool> {};  // true: alltoall

bool& passes_keys(runtime::Simulation& simulation) {
  return simulation.attachments().get<RotateMethods>().of(simulation.local());
}

runtime::Simulation& simulation_of_group(const distributed::ProcessGroup& group) {
  return *group.group()->simulation.lock();
}

Ring ring_of(const distributed::DeviceMesh& mesh, TokenOrder order) {
  const distributed::ProcessGroup& group = mesh.get_group();
  runtime::Simulation& simulation = simulation_of_group(group);
  return {.torch = runtime::context_of(simulation),
          .group = group,
          .rank = mesh.get_local_rank(),
          .size = mesh.size(),
          .order = order,
          .gathers = !passes_keys(simulation)};
}

void check_options(const AttentionOptions& options) {
  if (options.dropout_p > 0) {
    throw CollectiveError("KB-C025",
                          "Context Parallel does not support dropout, and dropout_p is {}: ranks "
                          "would have to draw alike for the same probabilities",
                          options.dropout_p);
  }
  if (options.attn_mask.defined()) {
    throw CollectiveError("KB-C025",
                          "Context Parallel does not support attn_mask, of which each rank would "
                          "need other parts in each step; is_causal is the mask that there is");
  }
}

Shape without_heads(const Tensor& x) {
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  if (sizes.size() > 2) sizes[sizes.size() - 3] = 1;
  return Shape(sizes);
}

void check_shapes(const AttentionInputs& inputs) {
  const auto& [query, key, value] = inputs;
  if (query.size(-2) != key.size(-2)) {
    throw CollectiveError("KB-C025",
                          "is_causal requires the same query and context sequence lengths, as "
                          "Context Parallel does without it: query is {} and key {}",
                          to_string(query.shape()), to_string(key.shape()));
  }
  if (query.numel() > 0 && key.shape() == value.shape() &&
      without_heads(query) == without_heads(key)) {
    return;
  }
  throw CollectiveError("KB-C025",
                        "Context Parallel wants key and value of one shape, which is the query's "
                        "but for the heads: query is {}, key {}, value {}",
                        to_string(query.shape()), to_string(key.shape()), to_string(value.shape()));
}

// Throws if a rank's tokens of a sequence are not those of the order.
void check_tokens(const PackedAttention& attention, TokenOrder order) {
  for (const ops::PackedSequence& of : attention.sequences) {
    if (of.query_rows != of.key_rows) {
      throw CollectiveError("KB-C025",
                            "Context Parallel wants as many keys as rows of a sequence: {} and {}",
                            of.key_rows, of.query_rows);
    }
    const bool is_even = order != TokenOrder::head_tail || of.query_rows % 2 == 0;
    if (of.query_rows > 0 && is_even) continue;
    throw CollectiveError(
        "KB-C025", "a rank has {} tokens of a sequence in the order {}; it has {}", of.query_rows,
        name_of(order), is_even ? "one at least" : "two chunks, and so an even number");
  }
}

// A contiguous [..., heads, tokens, depth] as packed rows.
PackedAttention describe(const AttentionInputs& inputs, const AttentionOptions& options) {
  const Tensor& query = inputs.query;
  PackedAttention attention;
  attention.heads = query.dim() < 3 ? 1 : query.size(-3);
  attention.key_heads = inputs.key.dim() < 3 ? 1 : inputs.key.size(-3);
  attention.depth = query.size(-1);
  attention.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(attention.depth)));
  attention.is_causal = options.is_causal;
  const std::int64_t tokens = query.size(-2);
  attention.layout = {.batches = query.numel() / (attention.heads * tokens * attention.depth),
                      .rows = tokens,
                      .are_heads_rows = true};
  for (std::int64_t i = 0; i < attention.layout.batches; ++i) {
    attention.sequences.push_back({i * tokens, tokens, i * tokens, tokens});
  }
  return attention;
}

void check_heads(const AttentionInputs& inputs, const AttentionOptions& options,
                 const PackedAttention& attention) {
  const bool are_equal = attention.heads == attention.key_heads;
  if (are_equal || (options.enable_gqa && attention.heads % attention.key_heads == 0)) return;
  throw CollectiveError("KB-C025",
                        "Number of heads in key and value must divide the number of heads in "
                        "query, with enable_gqa: {} and {}",
                        to_string(inputs.key.shape()), to_string(inputs.query.shape()));
}

// Attention of a ring's functions.
ops::AttentionOverride override_of(const Ring& ring, bool moves_heads) {
  const auto attend = [ring, moves_heads](const PackedAttention& attention,
                                          const AttentionInputs& inputs) {
    check_tokens(attention, ring.order);
    return moves_heads ? ulysses_attention(ring, attention, inputs)
                       : ring_attention(ring, attention, inputs);
  };
  return {.scaled_dot_product =
              [attend](const Tensor& query, const Tensor& key, const Tensor& value,
                       const AttentionOptions& options) {
                const AttentionInputs inputs{query, key, value};
                check_options(options);
                check_shapes(inputs);
                const PackedAttention attention = describe(inputs, options);
                check_heads(inputs, options, attention);
                const auto packed = [&](const Tensor& x) {
                  return reshape(contiguous(x), {x.numel() / attention.depth, 1, attention.depth});
                };
                const AttentionInputs rows{packed(query), packed(key), packed(value)};
                ops::check_lie_alike("scaled_dot_product_attention", rows);
                return reshape(attend(attention, rows), query.shape());
              },
          .packed = attend};
}

void check_dimensions(std::size_t buffers, const std::vector<int>& seq_dims) {
  if (buffers == seq_dims.size()) return;
  throw CollectiveError("KB-C025",
                        "`seq_dims` must have the same number of elements as `buffers`.");
}

void check_buffers(const ContextParallelOptions& options) {
  check_dimensions(options.buffers.size(), options.buffer_seq_dims);
  for (const Tensor& buffer : options.buffers) {
    if (!buffer.requires_grad()) continue;
    throw CollectiveError(
        "KB-C025",
        "context_parallel: tensor '{}' {} requires gradients, which a rank's part "
        "of it would not have; give what has none, as the inputs of the model",
        buffer.name(), to_string(buffer.shape()));
  }
  for (const Tensor& kept : options.no_restore_buffers) {
    const bool is_buffer = std::ranges::any_of(
        options.buffers, [&](const Tensor& buffer) { return &buffer == &kept; });
    if (is_buffer) continue;
    throw CollectiveError("KB-C025", "`no_restore_buffers` must be a subset of `buffers`.");
  }
}

// Returns the order in which these buffers can be shared.
TokenOrder order_of_buffers(const ContextParallelOptions& options, const Ring& ring) {
  for (std::size_t i = 0; i < options.buffers.size(); ++i) {
    const std::int64_t tokens = options.buffers[i].get().size(options.buffer_seq_dims[i]);
    if (options.order != TokenOrder::head_tail || tokens % (2 * ring.size) == 0) continue;
    if (ring.rank == 0) {
      fmt::print(stderr,
                 "kernbench: warning: context_parallel: {} tokens are not divided by 2 x {} ranks: "
                 "the order is contiguous, not head_tail, and ranks have unequal work\n",
                 tokens, ring.size);
    }
    return TokenOrder::contiguous;
  }
  return options.order;
}

// The buffers have the rank's tokens, while it lives.
class SharedBuffers {
 public:
  SharedBuffers(const ContextParallelOptions& options, const Ring& ring) : options_(options) {
    const NoGradGuard no_grad(ring.torch);
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < options.buffers.size(); ++i) {
      parts.push_back(tokens_of_rank(options.buffers[i], options.buffer_seq_dims[i], ring));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      whole_.push_back(std::exchange(options.buffers[i].get(), parts[i]));
    }
  }
  ~SharedBuffers() {
    // A buffer that is given twice was cut twice.
    for (std::size_t i = whole_.size(); i-- > 0;) {
      Tensor& buffer = options_.buffers[i];
      const bool stays = std::ranges::any_of(options_.no_restore_buffers,
                                             [&](const Tensor& kept) { return &kept == &buffer; });
      if (!stays) buffer = whole_[i];
    }
  }
  SharedBuffers(const SharedBuffers&) = delete;
  SharedBuffers& operator=(const SharedBuffers&) = delete;

 private:
  const ContextParallelOptions& options_;
  std::vector<Tensor> whole_;
};

TokenOrder run_shared(const distributed::DeviceMesh& mesh, const ContextParallelOptions& options,
                      bool moves_heads, const std::function<void()>& body) {
  check_buffers(options);
  Ring ring = ring_of(mesh, moves_heads ? TokenOrder::contiguous : options.order);
  if (!moves_heads) ring.order = order_of_buffers(options, ring);
  const SharedBuffers buffers(options, ring);
  const ops::AttentionOverride taken = override_of(ring, moves_heads);
  const ops::AttentionOverrideGuard guard(simulation_of_group(ring.group), taken);
  body();
  return ring.order;
}

}  // namespace

TokenOrder context_parallel(const distributed::DeviceMesh& mesh,
                            const ContextParallelOptions& options,
                            const std::function<void()>& body) {
  return run_shared(mesh, options, false, body);
}

void ulysses(const distributed::DeviceMesh& mesh, const ContextParallelOptions& options,
             const std::function<void()>& body) {
  run_shared(mesh, options, true, body);
}

void set_rotate_method(RuntimeContext& torch, std::string_view rotate_method) {
  if (rotate_method != "allgather" && rotate_method != "alltoall") {
    throw CollectiveError("KB-C025",
                          "Context Parallel does not support using {} for kv shards rotation",
                          rotate_method);
  }
  passes_keys(simulation_of(torch)) = rotate_method == "alltoall";
}

std::vector<Tensor> context_parallel_unshard(const distributed::DeviceMesh& mesh,
                                             const std::vector<Tensor>& buffers,
                                             const std::vector<int>& seq_dims, TokenOrder order) {
  check_dimensions(buffers.size(), seq_dims);
  const Ring ring = ring_of(mesh, order);
  const NoGradGuard no_grad(ring.torch);
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    all.push_back(gather_tokens(buffers[i], seq_dims[i], ring));
  }
  return all;
}

}  // namespace kernbench::experimental
