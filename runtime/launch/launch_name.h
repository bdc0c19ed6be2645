// The name of a launch, as messages show it.

#pragma once

#include <concepts>
#include <source_location>
#include <string>
#include <string_view>

namespace kernbench::runtime {

// The name of a kernel, with the line of the launch if a user's program launches it.
struct LaunchName {
  template <std::convertible_to<std::string_view> Text>
  LaunchName(const Text& text, std::source_location at = std::source_location::current())
      : name(text), location(at) {}
  // Names an operator's kernel, which no line of the user's program launches.
  static LaunchName of_operator(std::string_view name) {
    LaunchName made(name);
    made.location = {};
    return made;
  }

  std::string_view name;
  std::source_location location;  // of line 0: none

  bool has_location() const { return location.line() != 0; }
};

// "kernel 'add' at ddp.cpp:41"
std::string describe(const LaunchName& launch);

}  // namespace kernbench::runtime
