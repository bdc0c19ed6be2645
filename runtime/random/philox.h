#pragma once

#include <array>
#include <cstdint>

namespace kernbench::random {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011), torch's generator on devices: the
// counter's 128 bits, mixed with the key in ten rounds.  Numbers of different counters are
// independent, so that any of a sequence can be drawn without the others.
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

}  // namespace kernbench::random
