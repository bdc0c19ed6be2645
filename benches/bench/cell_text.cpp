#include "benches/bench/cell_text.h"

#include <fmt/format.h>

#include <type_traits>

namespace kernbench::benches {

std::string to_text(const Cell& cell) {
  return std::visit(
      [](const auto& value) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::nullptr_t>) {
          return {};
        } else {
          return fmt::format("{}", value);
        }
      },
      cell);
}

}  // namespace kernbench::benches
