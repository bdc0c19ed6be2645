// The value of one column of a row.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kernbench::benches {

struct Cell : std::variant<std::nullptr_t, bool, std::int64_t, double, std::string> {
  using variant::variant;
};

// The cells of a row by column, in the order in which they were set.
struct Cells : std::vector<std::pair<std::string, Cell>> {
  using vector::vector;
};

}  // namespace kernbench::benches
