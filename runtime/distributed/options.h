// The kinds of collectives, their reductions, and the keyword arguments of torch.distributed's
// functions.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/distributed/process_group.h"
#include "runtime/distributed/store.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"

namespace kernbench::distributed {

// The kinds of collectives.

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  gather,
  scatter,
  barrier,    // the first without blocks
  objects,    // host objects, which take no simulated time
  new_group,  // takes no simulated time either
};

// The number of blocks that a rank gives or takes: one for all members, or one for each.
enum class BlockCount : std::uint8_t { none, one, each };

// The member that alone gives, or takes.  Only it has the list of blocks, if there is one.
enum class Root : std::uint8_t { none, giver, taker };

// A collective as a row, from which checks, bounds, tables and the backend `local` know it.
struct CollectiveTraits {
  std::string_view name;
  std::string_view op_type;  // c10d's OpType
  BlockCount gives = BlockCount::none;
  BlockCount takes = BlockCount::none;
  bool reduces = false;
  Root root = Root::none;

  // Elements are replaced where they lie.
  constexpr bool is_in_place() const {
    return gives == BlockCount::one && takes == BlockCount::one;
  }
  constexpr bool has_list() const { return gives == BlockCount::each || takes == BlockCount::each; }
  constexpr bool has_lists() const {
    return gives == BlockCount::each && takes == BlockCount::each;
  }
  // True if `taker` takes something of what `giver` gives in a collective with this root.
  constexpr bool is_sent(int root_member, int giver, int taker) const {
    return root == Root::none || (root == Root::giver ? giver : taker) == root_member;
  }
};

// In the order of CollectiveKind.
inline constexpr std::array<CollectiveTraits, 11> kCollectiveTraits = {{
    {"all_reduce", "ALLREDUCE", BlockCount::one, BlockCount::one, true},
    {"broadcast", "BROADCAST", BlockCount::one, BlockCount::one, false, Root::giver},
    {"reduce", "REDUCE", BlockCount::one, BlockCount::one, true, Root::taker},
    {"all_gather", "ALLGATHER", BlockCount::one, BlockCount::each},
    {"reduce_scatter", "REDUCE_SCATTER", BlockCount::each, BlockCount::one, true},
    {"all_to_all", "ALLTOALL", BlockCount::each, BlockCount::each},
    {"gather", "GATHER", BlockCount::one, BlockCount::each, false, Root::taker},
    {"scatter", "SCATTER", BlockCount::each, BlockCount::one, false, Root::giver},
    {"barrier", "BARRIER"},
    {"objects", "OBJECTS"},
    {"new_group", "NEW_GROUP"},
}};

constexpr const CollectiveTraits& traits_of(CollectiveKind kind) {
  return kCollectiveTraits[static_cast<std::size_t>(kind)];
}

}  // namespace kernbench::distributed

namespace kernbench {

// torch.distributed.ReduceOp.

// The order is PyTorch's.  avg is the sum divided by the number of ranks (AverageDivisors says
// when it is divided).  band, bor and bxor are of i32, i64 and bool, avg of the other types;
// premul_sum is NCCL's and refused by name.
enum class ReduceOp : std::uint8_t { sum, avg, product, min, max, band, bor, bxor, premul_sum };

// "SUM", "AVG", ...
std::string_view name_of(ReduceOp op);

// The two divisors of an average (ADR-0160): each rank's elements are divided by `before`, and
// their sum by `after`.  The product of both is the number of ranks.
//
// bf16 and f32 are divided after the sum alone, since a sum over ranks stays far from their
// limits.  f16 ends at 65,504: `before` is the smallest power of two that is not below the number
// of ranks, so that no sum of finite elements overflows.  Dividing by it is exact except for
// elements that become smaller than 2^-14, where f16 has fewer bits.  Each addition rounds to the
// type, as for a sum; the division by `after` adds one rounding.
struct AverageDivisors {
  double before = 1;
  double after = 1;

  static AverageDivisors of(DType dtype, int rank_count);
  // True if the type can represent `after` exactly.  Otherwise the sum is divided in f32 and
  // rounded.
  bool is_after_exact_in(DType dtype) const;
};

// How far the bits of a sum over ranks stay the same (ADR-0180).  Minima, maxima and sums of
// integers have all levels at no cost.
enum class Reproducible : std::uint8_t {
  run,    // whenever the same program runs: always so
  batch,  // whatever other elements there are: an element is added up in an order that depends
          // neither on where it lies nor on their number
  pairs,  // as batch, and whether half as many ranks have each added up two: neighbouring ranks are
          // added in pairs, these in pairs, and so on.  Wants a power of two of ranks.
  ranks,  // however the same summands are dealt out to ranks, cubes and PEs: elements are added up
          // as integers, in any order.  One that is infinite or NaN anywhere becomes NaN.
};

inline constexpr std::array kReproducibleLevels = {Reproducible::run, Reproducible::batch,
                                                   Reproducible::pairs, Reproducible::ranks};
// "run", "batch", "pairs" or "ranks".
std::string_view name_of(Reproducible level);

namespace distributed {
using kernbench::ReduceOp;
using kernbench::Reproducible;
}  // namespace distributed

}  // namespace kernbench

namespace kernbench::distributed {

using Timeout = std::optional<std::chrono::milliseconds>;

// -1 means: use what the backend or the caller has.
struct InitOptions {
  int world_size = -1;
  int rank = -1;
  std::string init_method = {};  // accepted and ignored: there is only one process
  Timeout timeout = std::nullopt;
  Store store = {};  // wants world_size and rank, and no init_method; nothing is kept there
};

struct NewGroupOptions {
  Timeout timeout = std::nullopt;
  std::string backend = {};                // the default group's; another one is refused
  bool use_local_synchronization = false;  // only members call
  std::string group_desc = {};
  bool sort_ranks = true;
};

// torch.distributed's flags of shrink_group(): what was called and has not ended runs to its end,
// or fails.
enum ShrinkFlags : std::uint8_t { SHRINK_DEFAULT, SHRINK_ABORT };

struct ShrinkOptions {
  ProcessGroup group = {};
  ShrinkFlags shrink_flags = SHRINK_DEFAULT;
};

// Options of a reduction that may include its operation, since none is given before them.
struct ReductionOptions {
  ReduceOp op = ReduceOp::sum;
  ProcessGroup group = {};
  bool async_op = false;
  Reproducible reproducible = Reproducible::run;  // or what the environment asks for
};

struct CollectiveOptions {
  ProcessGroup group = {};
  bool async_op = false;
  Reproducible reproducible = Reproducible::run;  // of a reduction, as above

  operator ReductionOptions() const {
    return {.group = group, .async_op = async_op, .reproducible = reproducible};
  }
};

struct SourceOptions {
  std::optional<int> src = std::nullopt;
  ProcessGroup group = {};
  bool async_op = false;
  std::optional<int> group_src = std::nullopt;
};

struct DestinationOptions {
  std::optional<int> dst = std::nullopt;
  ProcessGroup group = {};
  bool async_op = false;
  std::optional<int> group_dst = std::nullopt;
  Reproducible reproducible = Reproducible::run;  // of a reduction, as above
};

struct SendOptions {
  std::optional<int> dst = std::nullopt;
  ProcessGroup group = {};
  int tag = 0;
  std::optional<int> group_dst = std::nullopt;
};

struct RecvOptions {
  std::optional<int> src = std::nullopt;  // any rank if group_src is not given either
  ProcessGroup group = {};
  int tag = 0;
  std::optional<int> group_src = std::nullopt;
};

struct MonitoredBarrierOptions {
  ProcessGroup group = {};
  Timeout timeout = std::nullopt;
  bool wait_all_ranks = false;
};

// torch.distributed.DebugLevel, of TORCH_DISTRIBUTED_DEBUG.
enum class DebugLevel : std::uint8_t { off, info, detail };

// What torch.distributed says of the host: `dist.is_nccl_available()`.
struct Facilities {
  static constexpr bool is_available() { return true; }
  static constexpr bool is_gloo_available() { return false; }
  static constexpr bool is_mpi_available() { return false; }
  static constexpr bool is_nccl_available() { return false; }
  static constexpr bool is_ucc_available() { return false; }
  static constexpr bool is_torchelastic_launched() { return false; }
  // Calls of ranks are always compared, which torch does at this level.
  static constexpr DebugLevel get_debug_level() { return DebugLevel::detail; }
};

// Settings of a backend, opaque to the runtime (RuntimeOptions::ccl).
class BackendConfig {
 public:
  virtual ~BackendConfig() = default;
};

}  // namespace kernbench::distributed
