#include "runtime/simulation/run_log.h"

#include <array>

namespace kernbench::runtime {

std::string_view name_of(RunSpan::Kind kind) {
  constexpr std::array<std::string_view, 7> kNames = {
      "kernel", "collective_kernel", "collective", "message", "wait", "scope", "mark"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace kernbench::runtime
