// The kinds of collectives.

#pragma once

#include <cstdint>
#include <string_view>

namespace kernbench::distributed {

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

}  // namespace kernbench::distributed
