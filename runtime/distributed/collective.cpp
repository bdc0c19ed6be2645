#include "runtime/distributed/collective.h"

#include <array>

namespace kernbench {

std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, 9> kNames = {"SUM",  "AVG", "PRODUCT", "MIN",       "MAX",
                                                      "BAND", "BOR", "BXOR",    "PREMUL_SUM"};
  return kNames.at(static_cast<std::size_t>(op));
}

namespace distributed {

std::string_view op_type_of(CollectiveKind kind) {
  constexpr std::array<std::string_view, 11> kNames = {
      "ALLREDUCE", "BROADCAST", "REDUCE",  "ALLGATHER", "REDUCE_SCATTER", "ALLTOALL",
      "GATHER",    "SCATTER",   "BARRIER", "OBJECTS",   "NEW_GROUP"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace distributed
}  // namespace kernbench
