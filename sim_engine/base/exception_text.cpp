#include "sim_engine/base/exception_text.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <typeinfo>

#include "sim_engine/base/visible_text.h"

namespace kernbench {

std::string to_text(const std::exception& exception) {
  const char* const text = exception.what();
  return text == nullptr ? "(its what() is a null pointer)" : visible_lines(text);
}

std::string type_of_current_exception() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  return type == nullptr ? "of another language" : demangle(type->name());
}

std::string demangle(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

bool is_host_limit(const std::error_code& code) {
  constexpr std::array kLimits = {std::errc::not_enough_memory, std::errc::too_many_files_open,
                                  std::errc::too_many_files_open_in_system,
                                  std::errc::resource_unavailable_try_again};
  return std::ranges::any_of(kLimits, [&](std::errc limit) { return code == limit; });
}

}  // namespace kernbench
