// Rules of ccl.yaml that choose an algorithm for a collective, by its size and its group's:
//
//   rules:
//     - all_reduce: {algorithm: tree_allreduce, up_to: 4 KiB}
//     - all_reduce: {algorithm: bidirectional_ring_allreduce, above: 64 KiB, ranks: 4}
//     - broadcast: {algorithm: chain}
//
// The first rule that fits decides; where none does, `defaults.algorithm` does for all_reduce, and
// the fastest by the model for all others.  A size is in bytes of what a rank gives to, or takes
// from, each other one: of the tensor for all_reduce, of a block for all_gather.

#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "ccl/core/algorithm.h"
#include "sim_engine/config/yaml_reader.h"

namespace kernbench::ccl {

struct Rule {
  distributed::CollectiveKind kind = distributed::CollectiveKind::all_reduce;
  const Algorithm* algorithm = nullptr;  // null: the fastest by the model
  Bytes above = -1;
  Bytes up_to = std::numeric_limits<Bytes>::max();
  std::optional<int> ranks;

  bool fits(distributed::CollectiveKind wanted, int rank_count, Bytes bytes) const {
    return kind == wanted && bytes > above && bytes <= up_to &&
           ranks.value_or(rank_count) == rank_count;
  }
};

// Reads the list.  An algorithm that does not serve the collective, or cannot serve groups of any
// shape, is KB-Y040.
std::vector<Rule> read_rules(YamlReader& reader, const YamlNode& list);

}  // namespace kernbench::ccl
