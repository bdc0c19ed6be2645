#pragma once

#include <string>

#include "sim_engine/base/error.h"

namespace kernbench::test {

// what() of the `Expected` that `action` throws; "no error" if it throws none.  Anything else that
// it throws fails the test.
template <class Expected, class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  }
  return "no error";
}

template <class Action>
std::string config_error_of(Action action) {
  return error_of<ConfigError>(action);
}

}  // namespace kernbench::test
