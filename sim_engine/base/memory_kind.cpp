#include "sim_engine/base/memory_kind.h"

#include "sim_engine/base/enum_names.h"

namespace kernbench {

std::string_view name_of(MemoryKind kind) {
  constexpr std::array<std::string_view, kAllMemoryKinds.size()> kNames = {
      "temporary", "autograd_detail", "communication", "activation",
      "input",     "gradient",        "parameter",     "optimizer_state"};
  return name_in(kNames, kind);
}

}  // namespace kernbench
