#include "runtime/distributed/objects.h"

#include <fmt/format.h>

namespace kernbench::distributed {

void throw_other_type(std::string_view function) {
  throw CollectiveMismatchError("KB-C001",
                                fmt::format("Detected mismatch between collectives on ranks. Ranks "
                                            "brought objects of different types to {}",
                                            function));
}

}  // namespace kernbench::distributed
