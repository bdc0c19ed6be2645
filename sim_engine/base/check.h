// KB_CHECK: an invariant of kernbench itself.  If no user input can make it fail, it is a KB_CHECK;
// otherwise it is an Error (error.h).

#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace kernbench {

// A bug of kernbench.  Never caught except by main() (exit 70) and by tests.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace kernbench

// Stays on in release builds: a simulator that computes the wrong time quietly is worthless.
#define KB_CHECK(condition, ...)                                                           \
  do {                                                                                     \
    if (!(condition)) [[unlikely]] {                                                       \
      ::kernbench::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    }                                                                                      \
  } while (false)
