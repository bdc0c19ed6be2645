#include <array>

#include "sim_engine/components/use_and_waits.h"

namespace kernbench::sim {

std::string_view name_of(UnitClass unit_class) {
  constexpr std::array<std::string_view, kUnitClassCount> kNames = {
      "host", "link", "ucie", "noc", "sram", "hbm", "tcm", "cpu", "dma", "gemm", "math"};
  return kNames.at(static_cast<std::size_t>(unit_class));
}

}  // namespace kernbench::sim
