// The ranks that share a sequence, as one of them sees them.

#pragma once

#include <optional>

#include "runtime/context_parallel/context_parallel.h"
#include "runtime/distributed/process_group.h"
#include "runtime/functional/packed_attention.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::experimental {

// Rank r gets keys from r - 1 and passes them to r + 1, or all ranks gather those of all.
struct Ring {
  RuntimeContext& torch;
  distributed::ProcessGroup group;
  int rank = 0;  // in the group, as all others here
  int size = 1;
  TokenOrder order = TokenOrder::head_tail;
  bool gathers = true;

  int next() const { return (rank + 1) % size; }
  int previous() const { return (rank + size - 1) % size; }
  // The rank whose keys are here in a step.
  int source(int step) const { return (rank + size - step) % size; }
};

struct KeyValue {
  Tensor key;
  Tensor value;
};

// The part of an attention over all ranks' tokens that is between one rank's rows and another
// one's keys; nullopt if no row sees a key.  Each sequence of `own` has a rank's tokens of one.
std::optional<ops::PackedAttention> attention_between(const ops::PackedAttention& own,
                                                      const Ring& ring, int rank_of_rows,
                                                      int rank_of_keys);

}  // namespace kernbench::experimental
