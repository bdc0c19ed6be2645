// The order in which a collective adds up: for each element, the tree of its sum on each member
// that has it, from the plan and the cut of a call.

#pragma once

#include <cstdint>
#include <vector>

#include "ccl/backend/planned_call.h"
#include "ccl/core/sum_trees.h"

namespace kernbench::ccl {

class OrderOfSums {
 public:
  // The sums of elements [begin, end).
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    int sums = 0;  // OrderOfSums::sums_of()
  };

  SumTrees trees;
  // All elements, in ascending order; neighbours differ in their sums.  The elements of a
  // reduce_scatter are those of the blocks of all members, one after the other.
  std::vector<Range> ranges;
  // The sums of each chunk of the plan by member, also of those that are empty here;
  // SumTrees::kNone: it has no result.
  std::vector<std::vector<SumTrees::Tree>> sums;
  // How many different bits the sums of any cut can have, and the same of this one's.  Where the
  // plan has one sum for all chunks, it depends neither on the element nor on their number.
  int sums_of_plan = 0;
  int sums_of_call = 0;

  const std::vector<SumTrees::Tree>& sums_of(std::int64_t element) const;
  // The first member's that has it.
  SumTrees::Tree tree_of(std::int64_t element) const;
  // True if all members that have such a sum have the same bits.
  bool has_same_bits(const std::vector<SumTrees::Tree>& by_member) const;
};

// REQUIRES: `call` is a prepared all_reduce, reduce or reduce_scatter of SIPs that adds
OrderOfSums find_order(PlannedCall& call);

// A reduction of whole tensors {count} of a group, of which nothing is run.
struct ReductionCase {
  const Topology& topology;
  const Config& config;
  const Algorithm& algorithm;
  distributed::CollectiveKind kind = distributed::CollectiveKind::all_reduce;
  std::vector<int> sips = {};  // by member
  std::int64_t count = 0;      // elements that each member gives
  DType dtype = DType::f32;
  DPPolicy placement = {};
  int root = 0;
};

// REQUIRES: as above; of a reduce_scatter, the members divide the elements
OrderOfSums find_order(const ReductionCase& reduction);

}  // namespace kernbench::ccl
