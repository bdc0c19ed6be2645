#include "runtime/simulation/call_site.h"

#include <fmt/format.h>

namespace kernbench::runtime {

std::string call_site(const std::source_location& location) {
  return call_site(location.file_name(), location.line());
}

std::string call_site(std::string_view file, std::uint32_t line) {
  return fmt::format("{}:{}", file.substr(file.find_last_of('/') + 1), line);
}

}  // namespace kernbench::runtime
