// A collective algorithm: a plan of what each member sends to whom, or a kernel that runs on every
// PE that takes part.
//
// The library's algorithms are plans, and stand in a table.  A program adds its own with
// KERNBENCH_REGISTER_ALGORITHM or register_algorithm(), and ccl.yaml selects one by name.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ccl/core/plan.h"
#include "runtime/tensor/tensor_options.h"
#include "runtime/tl/tl.h"
#include "sim_engine/base/shape.h"
#include "sim_engine/topology/location.h"

namespace kernbench::ccl {

// Parts of a shard, for kernels that are written by hand.

// Elements [begin, begin + count) of a shard.
struct Piece {
  std::int64_t begin = 0;
  std::int64_t count = 0;

  Shape shape() const { return {count}; }
};

// Splits elements [begin, begin + total) into `count` parts whose sizes differ by at most one.
std::vector<Piece> cut(std::int64_t begin, std::int64_t total, int count);

// The place of a collective's participant among the others, and the ports through which its PE
// reaches them.  A participant is a rank's holder of a shard (rank = SIP) or a single PE.

// The structure along which an algorithm sends.
enum class Neighbours { grid, ring, tree };
inline constexpr std::array kNeighbours = {Neighbours::grid, Neighbours::ring, Neighbours::tree};
std::string_view name_of(Neighbours neighbours);

class Config;
struct Place;  // ccl/core/place.h

struct GridPlace {
  sim::Grid grid;
  int index = 0;
  std::array<tl::Port, sim::kCompassCount> ports{};  // by sim::Compass

  tl::Port port(sim::Compass towards) const { return ports[static_cast<std::size_t>(towards)]; }
};

struct RingPlace {
  int index = 0;
  int size = 1;
  tl::Port next{};      // to the participant with index + 1
  tl::Port previous{};  // to the one with index - 1
};

struct TreePlace {
  std::optional<tl::Port> parent;  // nullopt at the root
  std::vector<tl::Port> children;  // in the order in which their values are added
};

// The arguments of a collective's kernel.  It runs on the PEs whose shards make up the tensor.  If
// PEs of one cube hold copies or summands of the same shard, it runs only on the first one, the
// leader.
struct KernelArgs {
  tl::Pointer tensor;       // this PE's shard
  std::int64_t n_elem = 0;  // elements of this shard
  DType dtype = DType::f32;
  int rank = 0;                  // this participant's: its SIP, or, with rank = PE, its number
  int world_size = 1;            // participants that hold the same shard
  const Place* place = nullptr;  // this one's place among them; never null in a kernel

  // The fields below are about the inside of the SIP.
  sim::Grid cubes;  // the first `cube_count` hold the tensor
  int cube_count = 1;
  Root root = Root::center;  // root of the tree over cubes
  DPPolicy placement;
  std::vector<tl::Pointer> siblings;  // for a leader: the shards of the cube's other PEs

  std::int64_t slot_elements = 1;     // elements that fit into a slot
  int slots = 1;                      // slots of a queue
  std::int64_t scratch_elements = 1;  // that a kernel may hold at once; the same on all PEs

  // Return this participant's place in a structure.  Throw DeviceError KB-Q006 if the participants
  // are not joined in that structure, which can happen only with rank = PE.
  const GridPlace& grid() const;
  const RingPlace& ring() const;
  const TreePlace& tree() const;
};

// Returns how many elements of a type a kernel may keep in scratch at a time, beside `queues` such
// queues.
std::int64_t scratch_elements(const Topology& topology, const sim::IpcqParams& ipcq, int queues,
                              DType dtype);

// A collective of tensors of `n_elem` elements, for models of the whole.
struct CollectiveCase {
  const Topology& topology;
  DPPolicy placement;
  std::int64_t n_elem = 0;  // of the tensor; with rank = PE, of each participant's shard
  DType dtype = DType::f32;
  const Config& config;
};

using AlgorithmKernel = void (*)(tl::Context&, const KernelArgs&);
// Computes the time from the beginning of the kernels to their end, if only links cost time;
// nullopt where no closed form is known.  With rank = PE the links are the PEs' ports, and the
// shard is loaded and stored through them.
using AlgorithmTime = std::optional<Time> (*)(const CollectiveCase&);

// The least network of SIPs that an algorithm is made for.  `auto` does not take it on a lesser
// one.
enum class Network : std::uint8_t {
  any,
  joins_all,  // any two are neighbours: a switch or a full mesh
  adds_up,    // a switch that adds up messages; the algorithm runs on no other
};

// True if the SIPs of a topology are joined so.
bool provides(const Topology& topology, Network network);
// Says why the members of a group cannot run it: "needs a power of two"; empty if they can.
using AlgorithmMisfit = std::string_view (*)(const GroupShape&);

// A kernel finds the members as neighbours, whatever SIPs they are.
inline constexpr std::string_view kShapesOfKernels = "any group of SIPs, the sum";

struct Algorithm {
  std::string_view name;
  AlgorithmKernel kernel = nullptr;
  AlgorithmPlan plan = nullptr;                // if there is no kernel
  std::string_view collective = "all_reduce";  // or several: "all_gather, reduce_scatter"
  std::string_view summary = {};
  Neighbours neighbours = Neighbours::ring;  // that it sends to with rank = PE
  // True if it adds up summands, and spreads copies, that lie on several PEs of one SIP.
  bool reduces_in_sip = false;
  // True if `auto` may choose it.  A kernel must then be correct for every tensor that
  // KernelLauncher::check_placement() accepts, of any size, however participants are joined.
  bool suits_auto = false;
  Network network = Network::any;
  AlgorithmTime closed_form = nullptr;  // nullptr: none is known
  std::string_view form = {};           // the closed form in words: "2 (P - 1) a + 2 (P - 1)/P n b"
  // The groups that can run it, in words, and the same as a test; nullptr: any.
  std::string_view shapes = "any group";
  AlgorithmMisfit misfit = nullptr;
};

// Returns the library's algorithms.  The room above, ccl/algorithms, which has them, defines it.
std::span<const Algorithm> library_algorithms();

// Returns all algorithms: the library's, then the registered ones.
std::vector<const Algorithm*> algorithms();

// Returns nullptr if no algorithm has that name.
const Algorithm* find_algorithm(std::string_view name);

// True if the algorithm is for this collective.
bool serves(const Algorithm& algorithm, distributed::CollectiveKind kind);

// The collectives that have blocks, and so algorithms.
inline constexpr auto kPlannedKinds = [] {
  std::array<distributed::CollectiveKind,
             static_cast<std::size_t>(distributed::CollectiveKind::barrier)>
      kinds{};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    kinds[i] = static_cast<distributed::CollectiveKind>(i);
  }
  return kinds;
}();

// Why a group of this shape cannot run it; empty if it can.
std::string_view describe_misfit(const Algorithm& algorithm, const GroupShape& shape);

// True if it stands in the library's table, and is not a program's own.
bool is_of_library(const Algorithm& algorithm);

// Adds an algorithm, whose texts must live as long as the program.  Called before main() or from
// it.  Throws UsageError KB-U006 if the name is taken, or "auto".
bool register_algorithm(const Algorithm& algorithm);

}  // namespace kernbench::ccl

// KERNBENCH_REGISTER_ALGORITHM("name", kernel) registers an all_reduce, whose kernel is void
// kernel(tl::Context&, const ccl::KernelArgs&).
#define KERNBENCH_REGISTER_ALGORITHM(name, kernel) \
  KERNBENCH_REGISTER_ALGORITHM_AT(name, kernel, __LINE__)
#define KERNBENCH_REGISTER_ALGORITHM_AT(name, kernel, line) \
  KERNBENCH_REGISTER_ALGORITHM_AS(name, kernel, line)
#define KERNBENCH_REGISTER_ALGORITHM_AS(algorithm_name, algorithm_kernel, line) \
  [[maybe_unused]] static const bool kernbench_algorithm_##line =               \
      ::kernbench::ccl::register_algorithm({.name = algorithm_name, .kernel = algorithm_kernel})
