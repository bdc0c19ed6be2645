#include "runtime/simulation/run_log.h"

#include <array>

namespace kernbench::runtime {

std::string_view name_of(RunSpan::Kind kind) {
  constexpr std::array<std::string_view, 8> kNames = {
      "kernel", "collective_kernel", "collective", "message", "wait", "action", "scope", "mark"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::optional<RunLog::Id> RunLog::find_scope(int rank) const {
  for (const int program : {rank, -1}) {
    const auto scopes = open_scopes_.find(program);
    if (scopes != open_scopes_.end() && !scopes->second.empty()) return scopes->second.back();
  }
  return std::nullopt;
}

}  // namespace kernbench::runtime
