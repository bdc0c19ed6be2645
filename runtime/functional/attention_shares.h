// Which PE computes which rows of which head of an attention over packed sequences.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/functional/packed_attention.h"
#include "sim_engine/topology/location.h"

namespace kernbench::ops {

// Rows [first, end) of one head of a sequence: of the query or, where heads are those of keys, of
// key and value.
struct AttentionShare {
  std::size_t sequence = 0;
  std::int64_t head = 0;
  std::int64_t first = 0;
  std::int64_t end = 0;
};

// The shares of each PE that takes part, of which some have nothing to compute.
using AttentionShares = std::map<sim::PeLocation, std::vector<AttentionShare>>;

// The number of keys that a row of the query sees, from the first on.
std::int64_t count_seen_keys(const PackedAttention& attention, const PackedSequence& of,
                             std::int64_t row);
// The number of rows that see a key, up to the last.
std::int64_t count_rows_that_see(const PackedAttention& attention, const PackedSequence& of,
                                 std::int64_t key);

// The PEs with rows of a tensor, in groups that hold each row once.
std::vector<std::vector<sim::PeLocation>> find_holders_of_copies(const Tensor& tensor);

// Shares the query's rows, or the keys, among the PEs that hold rows of `result`.  Those that hold
// copies of the same rows each compute their own.  All heads of all sequences form a line, in which
// a row is as long as what it takes, and each PE has an equal stretch of it: rows of one head
// follow each other on a PE, so that it reads few keys often rather than many keys once.
AttentionShares share_rows(const PackedAttention& attention, const Tensor& result);
AttentionShares share_keys(const PackedAttention& attention, const Tensor& result);

}  // namespace kernbench::ops
