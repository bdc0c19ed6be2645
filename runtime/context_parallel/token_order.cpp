#include <functional>
#include <utility>
#include <vector>

#include "runtime/context_parallel/ring.h"

namespace kernbench::experimental {

std::string_view name_of(TokenOrder order) {
  constexpr std::array<std::string_view, kTokenOrders.size()> kNames = {"contiguous", "head_tail",
                                                                        "striped"};
  return kNames.at(static_cast<std::size_t>(order));
}

namespace {

using ops::PackedAttention;
using ops::PackedSequence;

// All rows see all keys, of parts of each sequence.
PackedAttention full(PackedAttention attention, const std::function<void(PackedSequence&)>& cut) {
  attention.is_causal = false;
  for (PackedSequence& of : attention.sequences) cut(of);
  return attention;
}

// Each rank has an early chunk and a late one.  The late ones ascend as the early ones descend:
// rows of an earlier rank's keys see the early chunk, and the late rows see both of a later rank's.
PackedAttention between_heads_and_tails(const PackedAttention& own, bool are_keys_earlier) {
  return full(own, [&](PackedSequence& of) {
    if (are_keys_earlier) {
      of.key_rows /= 2;
    } else {
      of.query += of.query_rows / 2;
      of.query_rows /= 2;
    }
  });
}

// A row sees the keys of later ranks up to the token before its own.
std::optional<PackedAttention> between_stripes(PackedAttention own, bool are_keys_earlier) {
  if (are_keys_earlier) return own;
  std::vector<PackedSequence> sequences;
  for (PackedSequence of : own.sequences) {
    ++of.query;
    --of.query_rows;
    --of.key_rows;
    if (of.query_rows > 0) sequences.push_back(of);
  }
  if (sequences.empty()) return std::nullopt;
  own.sequences = std::move(sequences);
  return own;
}

}  // namespace

std::optional<PackedAttention> attention_between(const PackedAttention& own, const Ring& ring,
                                                 int rank_of_rows, int rank_of_keys) {
  if (!own.is_causal || rank_of_rows == rank_of_keys) return own;
  const bool are_keys_earlier = rank_of_keys < rank_of_rows;
  switch (ring.order) {
    case TokenOrder::contiguous:
      if (!are_keys_earlier) return std::nullopt;
      return full(own, [](PackedSequence&) {});
    case TokenOrder::head_tail:
      return between_heads_and_tails(own, are_keys_earlier);
    case TokenOrder::striped:
      return between_stripes(own, are_keys_earlier);
  }
  return std::nullopt;
}

}  // namespace kernbench::experimental
