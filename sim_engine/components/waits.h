// What commands and kernels wait for, and for how long in sum.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

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
