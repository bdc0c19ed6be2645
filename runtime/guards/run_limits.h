#pragma once

#include <cstdint>

#include "sim_engine/base/units.h"

namespace kernbench::runtime {

// The limits after which a kernel or a rank counts as endless; RuntimeOptions explains the values.
struct RunLimits {
  std::int64_t commands = 10'000'000;
  std::chrono::milliseconds kernel_time{10'000};
  std::chrono::milliseconds rank_notice{10'000};
  std::chrono::milliseconds rank_time{0};
};

}  // namespace kernbench::runtime
