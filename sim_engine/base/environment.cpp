#include "sim_engine/base/environment.h"

#include <cstdlib>
#include <string_view>

#include "sim_engine/base/error.h"

namespace kernbench {

std::optional<bool> find_switch(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  const std::string_view text = value;
  if (text == "0" || text == "1") return text == "1";
  throw UsageError("KB-U013", "{}: expected 0 or 1, got '{}'", name, text);
}

}  // namespace kernbench
