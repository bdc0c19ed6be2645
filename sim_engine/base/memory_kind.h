// The uses of blocks of a device's HBM: the categories of torch.profiler's memory timeline.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench {

// From the weakest to the strongest: a tensor that is of several kinds in its life is of the
// strongest of them all the time, as torch.profiler decides when the run is over.
enum class MemoryKind : std::uint8_t {
  temporary,        // a result that nothing below has taken
  autograd_detail,  // likewise, of a backward pass
  communication,    // buckets and other buffers of collectives, and slots of queues
  activation,       // a result that an operator keeps for its backward
  input,            // made by torch.zeros, tensor, rand, ...: a batch, a buffer of a module
  gradient,         // grad() of a leaf
  parameter,        // of a module or an optimizer
  optimizer_state   // states of an optimizer, and masters in f32
};
inline constexpr std::array kAllMemoryKinds = {
    MemoryKind::temporary,  MemoryKind::autograd_detail, MemoryKind::communication,
    MemoryKind::activation, MemoryKind::input,           MemoryKind::gradient,
    MemoryKind::parameter,  MemoryKind::optimizer_state};

// "optimizer_state".
std::string_view name_of(MemoryKind kind);

// Bytes of each kind.
class MemoryByKind {
 public:
  Bytes& operator[](MemoryKind kind) { return bytes_.at(static_cast<std::size_t>(kind)); }
  Bytes operator[](MemoryKind kind) const { return bytes_.at(static_cast<std::size_t>(kind)); }
  Bytes sum() const {
    Bytes all = 0;
    for (const Bytes bytes : bytes_) all += bytes;
    return all;
  }
  friend bool operator==(const MemoryByKind&, const MemoryByKind&) = default;

 private:
  std::array<Bytes, kAllMemoryKinds.size()> bytes_{};
};

}  // namespace kernbench
