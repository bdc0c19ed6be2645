#include "runtime/distributed/backend.h"

#include <map>

namespace kernbench::distributed {

namespace {

// Filled before main() by the umbrella header, and only read afterwards.
std::map<std::string, BackendFactory, std::less<>>& registry() {
  static std::map<std::string, BackendFactory, std::less<>> backends;
  return backends;
}

}  // namespace

bool register_backend(std::string_view name, BackendFactory factory) {
  return registry().emplace(name, factory).second;
}

BackendFactory find_backend(std::string_view name) {
  const auto found = registry().find(name);
  return found == registry().end() ? nullptr : found->second;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : registry()) names.push_back(name);
  return names;
}

}  // namespace kernbench::distributed
