#include "sim_engine/base/check.h"

#include <fmt/format.h>

#include <string_view>

namespace kernbench {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  const std::string_view path(file);
  const std::string_view name = path.substr(path.find_last_of('/') + 1);
  throw InternalError(fmt::format("[KB-X001] internal check failed: {}:{}: {}: {}", name, line,
                                  condition, message));
}

}  // namespace kernbench
