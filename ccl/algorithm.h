// A collective algorithm: a kernel that runs on every PE that takes part.

#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/tensor/dp_policy.h"
#include "runtime/tl/tl.h"
#include "sim_engine/components/grid.h"

namespace kernbench::ccl {

// What a kernel of a collective is told.  It runs on the PEs whose shards make up the tensor; of
// PEs in one cube that hold copies or summands of the same shard, only on the first, the leader.
struct KernelArgs {
  tl::Pointer tensor;       // this PE's shard
  std::int64_t n_elem = 0;  // of this shard
  DType dtype = DType::f32;
  int rank = 0;
  int world_size = 1;

  sim::Grid sips;   // one rank on each
  sim::Grid cubes;  // of a SIP; the first `cube_count` hold the tensor
  int cube_count = 1;
  DPPolicy placement;
  std::vector<tl::Pointer> siblings;  // a leader's: the shards of the cube's other PEs

  std::int64_t slot_elements = 1;     // that fit into one
  std::int64_t scratch_elements = 1;  // that a kernel may hold at a time, the same on all PEs
};

// What a kernel may keep in scratch at a time, of a type, beside queues of that kind.
std::int64_t scratch_elements(const Topology& topology, const sim::IpcqParams& ipcq, DType dtype);

// One collective of tensors of `n_elem` elements, as a whole.
struct CollectiveCase {
  const Topology& topology;
  DPPolicy placement;
  std::int64_t n_elem = 0;
  DType dtype = DType::f32;
  sim::IpcqParams ipcq;
};

using AlgorithmKernel = void (*)(tl::Context&, const KernelArgs&);
using AlgorithmTime = std::optional<Time> (*)(const CollectiveCase&);

struct Algorithm {
  std::string_view name;
  std::string_view collective;
  std::string_view summary;
  AlgorithmKernel kernel;
  AlgorithmTime closed_form;  // nullptr: none is known
};

// All there are, by name.
std::span<const Algorithm> algorithms();

// nullptr if there is none of that name.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace kernbench::ccl
