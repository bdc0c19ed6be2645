// Elements on the host.

#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace kernbench::runtime {

// i64 of the integral types, which are exact so, else f32.
using HostElements = std::variant<std::vector<float>, std::vector<std::int64_t>>;

}  // namespace kernbench::runtime
