// A collective as a backend sees it: its kind, and each rank's input blocks (gives) and output
// blocks (takes).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/distributed/reduce_op.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::distributed {

using kernbench::ReduceOp;

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  barrier,
  objects,    // host objects, which take no simulated time
  new_group,  // takes no simulated time either
};

// c10d's OpType: "ALLREDUCE", ...
std::string_view op_type_of(CollectiveKind kind);

// Elements [first, first + count) of a tensor, numbered row by row over the whole tensor.
struct Block {
  Tensor tensor;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

inline Block whole(const Tensor& tensor) {
  return {tensor, 0, tensor.numel()};
}

// One rank's part.  A list has one block, or one for each member by group rank:
//
//   kind            gives     takes       members[r].takes[s] becomes
//   all_reduce      1         1, the same the reduction over all members' gives[0]
//   broadcast       1         1, the same the root's gives[0]
//   reduce          1         1, the same the reduction, on the root; elsewhere it stays
//   all_gather      1         each        members[s].gives[0]
//   reduce_scatter  each      1           the reduction over all members' gives[r]
//   all_to_all      each      each        members[s].gives[r]
//   gather          1         each, root  members[s].gives[0], on the root
//   scatter         each,root 1           the root's gives[r]
//   barrier         0         0
struct CollectiveRequest {
  CollectiveKind kind = CollectiveKind::barrier;
  std::vector<Block> gives;
  std::vector<Block> takes;
  ReduceOp op = ReduceOp::sum;
  int root = 0;  // group rank
};

// Returns a list's block for or from a member, or the single block itself; nullptr if it is empty.
inline const Block* block_for(const std::vector<Block>& blocks, int member) {
  if (blocks.empty()) return nullptr;
  return blocks.size() == 1 ? &blocks.front() : &blocks[static_cast<std::size_t>(member)];
}

// True if the member's output is written: a reduce writes on the root alone.
inline bool writes(const CollectiveRequest& request, int member) {
  return request.kind != CollectiveKind::reduce || request.root == member;
}

// True if the member's output changes.  The root of a broadcast has the values already, but a
// partial placement becomes replicated there too.
inline bool changes(const CollectiveRequest& request, int member, bool is_partial) {
  const bool has_it = request.kind == CollectiveKind::broadcast && request.root == member;
  return has_it ? is_partial : writes(request, member);
}

// One rank's call of a collective.
struct CollectiveCall {
  int rank = 0;                 // in its group
  std::uint64_t sequence = 0;   // of the collective in its group: 0, 1, ...
  std::uint64_t operation = 0;  // KernelResult::operation, the same on all ranks
};

}  // namespace kernbench::distributed
