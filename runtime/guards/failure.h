// Translates an exception into an exit code and a text for standard error.

#pragma once

#include <exception>
#include <string>

#include "sim_engine/base/error.h"

namespace kernbench::runtime {

struct Failure {
  ExitCode exit_code = ExitCode::worker_failed;
  std::string code;  // "KB-D001"
  std::string text;  // begins with the code
};

// `command` is the command line of the program; the report of an internal error contains it.
Failure describe_failure(const std::exception_ptr& exception, const std::string& command);

}  // namespace kernbench::runtime
