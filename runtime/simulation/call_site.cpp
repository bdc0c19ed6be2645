#include "runtime/simulation/call_site.h"

#include <fmt/format.h>

#include <string_view>

namespace kernbench::runtime {

std::string call_site(const std::source_location& location) {
  const std::string_view path(location.file_name());
  return fmt::format("{}:{}", path.substr(path.find_last_of('/') + 1), location.line());
}

}  // namespace kernbench::runtime
