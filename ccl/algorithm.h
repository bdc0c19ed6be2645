// A collective algorithm: a kernel that runs on every PE that takes part.
//
// Those of the library stand in a table; a program adds its own, with KERNBENCH_REGISTER_ALGORITHM
// or register_algorithm(), and ccl.yaml picks one by name.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/place.h"
#include "ccl/spanning_tree.h"
#include "runtime/tensor/dp_policy.h"
#include "runtime/tl/tl.h"
#include "sim_engine/components/grid.h"

namespace kernbench::sim {
struct IpcqParams;
}

namespace kernbench::ccl {

// What a kernel of a collective is told.  It runs on the PEs whose shards make up the tensor; of
// PEs in one cube that hold copies or summands of the same shard, only on the first, the leader.
struct KernelArgs {
  tl::Pointer tensor;       // this PE's shard
  std::int64_t n_elem = 0;  // of this shard
  DType dtype = DType::f32;
  int rank = 0;                  // of this participant: its SIP, or, with rank = PE, its number
  int world_size = 1;            // participants that hold the same shard
  const Place* place = nullptr;  // among them; never null in a kernel

  // Inside the SIP.
  sim::Grid cubes;  // the first `cube_count` hold the tensor
  int cube_count = 1;
  Root root = Root::center;  // of the tree over cubes
  DPPolicy placement;
  std::vector<tl::Pointer> siblings;  // a leader's: the shards of the cube's other PEs

  std::int64_t slot_elements = 1;     // that fit into one
  int slots = 1;                      // of a queue
  std::int64_t scratch_elements = 1;  // that a kernel may hold at a time, the same on all PEs

  // Where this participant stands.  DeviceError KB-Q006 if the participants are not joined so,
  // which can be with rank = PE alone.
  const GridPlace& grid() const;
  const RingPlace& ring() const;
  const TreePlace& tree() const;
};

// What a kernel may keep in scratch at a time, of a type, beside `queues` queues of that kind.
std::int64_t scratch_elements(const Topology& topology, const sim::IpcqParams& ipcq, int queues,
                              DType dtype);

class Config;

// One collective of tensors of `n_elem` elements, as a whole.
struct CollectiveCase {
  const Topology& topology;
  DPPolicy placement;
  std::int64_t n_elem = 0;  // of the tensor; with rank = PE, of each participant's shard
  DType dtype = DType::f32;
  const Config& config;
};

using AlgorithmKernel = void (*)(tl::Context&, const KernelArgs&);
// How long the kernels take from the moment at which they begin, if nothing costs time but links;
// nullopt where no form is known.  With rank = PE the links are the PEs' ports, and the shard is
// loaded and stored through them.
using AlgorithmTime = std::optional<Time> (*)(const CollectiveCase&);

struct Algorithm {
  std::string_view name;
  AlgorithmKernel kernel = nullptr;
  std::string_view collective = "all_reduce";
  std::string_view summary = {};
  Neighbours neighbours = Neighbours::ring;  // that it sends to, with rank = PE
  // Whether it adds up summands, and spreads copies, that lie on several PEs of one SIP.
  bool reduces_in_sip = false;
  // Whether `auto` may take it: it is right for every tensor that KernelLauncher::check_placement()
  // lets it have, of any size, however participants are joined.
  bool suits_auto = false;
  AlgorithmTime closed_form = nullptr;  // nullptr: none is known
  std::string_view form = {};           // the same in words: "2 (P - 1) a + 2 (P - 1)/P n b"
};

// All there are: the library's, then those that were registered.
std::vector<const Algorithm*> algorithms();

// nullptr if there is none of that name.
const Algorithm* find_algorithm(std::string_view name);

// Whether it stands in the library's table, and is not a program's own.
bool is_of_library(const Algorithm& algorithm);

// Adds one.  Its texts must live as long as the program.  Called before main(), or from it.
// Throws UsageError KB-U006 if the name is taken, or "auto".
bool register_algorithm(const Algorithm& algorithm);

}  // namespace kernbench::ccl

// KERNBENCH_REGISTER_ALGORITHM("name", kernel): an all_reduce, void kernel(tl::Context&, const
// ccl::KernelArgs&).
#define KERNBENCH_REGISTER_ALGORITHM(name, kernel) \
  KERNBENCH_REGISTER_ALGORITHM_AT(name, kernel, __LINE__)
#define KERNBENCH_REGISTER_ALGORITHM_AT(name, kernel, line) \
  KERNBENCH_REGISTER_ALGORITHM_AS(name, kernel, line)
#define KERNBENCH_REGISTER_ALGORITHM_AS(algorithm_name, algorithm_kernel, line) \
  [[maybe_unused]] static const bool kernbench_algorithm_##line =               \
      ::kernbench::ccl::register_algorithm({.name = algorithm_name, .kernel = algorithm_kernel})
