// Errors of torch.distributed's users.

#pragma once

#include <string_view>

#include "sim_engine/base/error.h"

namespace kernbench::distributed {

// Of the life cycle of groups.
[[noreturn]] inline void misuse(std::string_view text) {
  throw CollectiveError("KB-R002", text);
}

// Of a call's arguments; PyTorch's ValueError and TypeError.
[[noreturn]] inline void wrong_argument(std::string_view text) {
  throw CollectiveError("KB-C020", text);
}

}  // namespace kernbench::distributed
