// UnitUse says how long a unit was busy with kernels: a PE's CPU, a DMA channel, an array, a link,
// a memory's port, or all units of a kind together.  Waits says how long commands and kernels have
// waited, by cause.

#pragma once

#include <array>
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

// The bytes that units that compute have read from TCM and written to it.
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

enum class WaitCause : std::uint8_t {
  message,  // a kernel, for a message that has not come (tl.recv, tl.wait)
  credit,   // a kernel, for a free slot of a queue (tl.send)
  receive,  // a kernel, for the news of a posted receive (tl.send with copy_to)
  scratch,  // a kernel, for scratch that others hold
  dma,      // a command, for its channel of PE_DMA
  link,     // the head of a transfer, for links and memory ports but those of HBM
  hbm,      // the head of a transfer, for the port of a slice of HBM
  unit,     // a command, for PE_MATH or PE_GEMM
};

inline constexpr std::array kWaitCauses = {
    WaitCause::message, WaitCause::credit, WaitCause::receive, WaitCause::scratch,
    WaitCause::dma,     WaitCause::link,   WaitCause::hbm,     WaitCause::unit};

constexpr std::string_view name_of(WaitCause cause) {
  constexpr std::array<std::string_view, kWaitCauses.size()> kNames = {
      "message", "credit", "receive", "scratch", "dma", "link", "hbm", "unit"};
  return kNames.at(static_cast<std::size_t>(cause));
}

// A sum of waits for each cause.  Commands of a kernel wait at the same time, so a sum may exceed
// the time that the kernel ran.
class Waits {
 public:
  Time& operator[](WaitCause cause) { return times_[static_cast<std::size_t>(cause)]; }
  Time operator[](WaitCause cause) const { return times_[static_cast<std::size_t>(cause)]; }

  Waits& operator+=(const Waits& other) {
    for (const WaitCause cause : kWaitCauses) (*this)[cause] += other[cause];
    return *this;
  }

  // The cause of the longest wait for something that others use: any but `message`, which waits for
  // work to be done.  The first if several are equal.
  WaitCause largest() const {
    WaitCause largest = kWaitCauses[1];
    for (const WaitCause cause : kWaitCauses) {
      if (cause != WaitCause::message && (*this)[cause] > (*this)[largest]) largest = cause;
    }
    return largest;
  }

  friend bool operator==(const Waits&, const Waits&) = default;

 private:
  std::array<Time, kWaitCauses.size()> times_{};
};

}  // namespace kernbench::sim
