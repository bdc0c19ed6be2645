// What Python's repr() says of the arguments of layers.

#pragma once

#include <string>
#include <string_view>

#include "runtime/functional/functional.h"

namespace kernbench::nn {

inline std::string_view repr(bool value) {
  return value ? "True" : "False";
}
std::string repr(double value);  // "1.0", "1e-05"
std::string repr(const Shape& shape);  // "(4, 8)", "(8,)"
// "3" if both are equal, as most write it, and "(3, 5)".
std::string repr(const functional::Pair& pair);

}  // namespace kernbench::nn
