// What an exception means to whoever reads the program's standard error and its exit code.

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

// `command` is how the program was called, for the report of a bug of ours.
Failure describe_failure(const std::exception_ptr& exception, const std::string& command);

}  // namespace kernbench::runtime
