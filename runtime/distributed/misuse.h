// Functions that throw the errors of a misuse of torch.distributed.

#pragma once

#include <string_view>

#include "sim_engine/base/error.h"

namespace kernbench::distributed {

// Throws for misuse of a group's life cycle.
[[noreturn]] inline void misuse(std::string_view text) {
  throw CollectiveError("KB-R002", text);
}

// Throws for wrong arguments of a call, where PyTorch has ValueError and TypeError.
[[noreturn]] inline void wrong_argument(std::string_view text) {
  throw CollectiveError("KB-C020", text);
}

}  // namespace kernbench::distributed
