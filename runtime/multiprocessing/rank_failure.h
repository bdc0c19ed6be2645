// Describes a rank's failure for the text that spawn() throws.

#pragma once

#include <exception>
#include <string>

#include "sim_engine/base/error.h"

namespace kernbench::multiprocessing {

struct RankFailure {
  std::string text;  // "boom (std::runtime_error)"
  ExitCode exit_code = ExitCode::worker_failed;
  bool passes_unchanged = false;  // true if it does not concern this rank alone
};

RankFailure inspect(const std::exception_ptr& exception);

bool is_deadlock(const std::exception_ptr& failure);

}  // namespace kernbench::multiprocessing
