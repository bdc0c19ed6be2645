// Names of enumerators.  A value need not be an enumerator: a user may cast any number.

#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace kernbench {

// True if `value` is one of the first `count` enumerators, which are 0, 1, ...
template <class Enum>
constexpr bool is_enumerator(Enum value, std::size_t count) {
  return static_cast<std::size_t>(static_cast<std::underlying_type_t<Enum>>(value)) < count;
}

// names[value], or "(no such value)" if `value` is no enumerator.
template <class Enum, std::size_t n>
constexpr std::string_view name_in(const std::array<std::string_view, n>& names, Enum value) {
  return is_enumerator(value, n) ? names[static_cast<std::size_t>(value)] : "(no such value)";
}

// The underlying number of an enumerator, for messages.
template <class Enum>
constexpr int number_of(Enum value) {
  return static_cast<int>(value);
}

}  // namespace kernbench
