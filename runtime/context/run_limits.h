#pragma once

#include <chrono>
#include <cstdint>

namespace kernbench::runtime {

// When a kernel is held to be endless; RuntimeOptions says what the figures mean.
struct RunLimits {
  std::int64_t commands = 10'000'000;
  std::chrono::milliseconds kernel_time{10'000};
};

}  // namespace kernbench::runtime
