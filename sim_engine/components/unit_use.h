// How long a unit was busy with kernels: a PE's CPU, a DMA channel, an array, a link, a memory's
// port; and the units of a kind together.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

struct UnitUse {
  std::string unit;  // "sip0.cube0.pe3.gemm", "sip1.link.east"; "" if no unit was busy at all
  Time busy{0};
  Time kernel_time{0};  // in which at least one kernel ran

  // busy / kernel_time: the utilization of the unit.  The kernels cannot be faster than this unit:
  // at 1 only a faster unit would help; at a small share, latencies and waiting take the time.
  double share() const {
    if (kernel_time == Time{0}) return 0;
    return static_cast<double>(busy.count()) / static_cast<double>(kernel_time.count());
  }
};

// The kinds of units: links to the host, between SIPs, between cubes, of a cube's network; ports of
// SRAM, HBM and TCM; a PE's CPU, its DMA channels, its arrays.
enum class UnitClass : std::uint8_t { host, link, ucie, noc, sram, hbm, tcm, cpu, dma, gemm, math };

inline constexpr std::size_t kUnitClassCount = 11;

// "host", "link", "ucie", ...
std::string_view name_of(UnitClass unit_class);

// A unit of a PE: how long it has been busy.
struct PeUnitUse {
  UnitClass unit_class = UnitClass::cpu;
  std::string_view name;  // "cpu", "load", "gemm", ...; a literal
  Time busy{0};
};

// What units that compute have read from TCM and written to it.
struct ComputeTraffic {
  Bytes read = 0;
  Bytes written = 0;

  ComputeTraffic& operator+=(const ComputeTraffic& other) {
    read += other.read;
    written += other.written;
    return *this;
  }
  friend bool operator==(const ComputeTraffic&, const ComputeTraffic&) = default;
};

// All units of a class.
struct UnitClassUse {
  UnitClass unit_class = UnitClass::host;
  std::int64_t count = 0;  // units that the machine has
  Time total{0};           // sum of their busy times
  UnitUse busiest;         // the first if several are equal

  // The mean utilization of the units.
  double mean_share() const {
    const auto possible = static_cast<double>(count * busiest.kernel_time.count());
    return possible == 0 ? 0 : static_cast<double>(total.count()) / possible;
  }
};

}  // namespace kernbench::sim
