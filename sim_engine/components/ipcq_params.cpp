#include "sim_engine/components/ipcq_params.h"

namespace kernbench::sim {

std::string_view name_of(BufferKind kind) {
  constexpr std::array<std::string_view, 3> kNames = {"tcm", "sram", "hbm"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace kernbench::sim
