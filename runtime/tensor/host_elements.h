// Elements on the host.

#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace kernbench::runtime {

// Elements of integral types are i64, which holds them exactly; others are f32.
using HostElements = std::variant<std::vector<float>, std::vector<std::int64_t>>;

}  // namespace kernbench::runtime
