#pragma once

#include <string>

#include "sim_engine/base/error.h"

namespace kernbench::test {

// what() of the ConfigError that `action` throws; "no error" if it throws none.  Anything else that
// it throws fails the test.
template <class Action>
std::string config_error_of(Action action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace kernbench::test
