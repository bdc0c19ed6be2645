// The error of a spawn() whose worker has raised.

#pragma once

#include <exception>
#include <string_view>
#include <utility>

#include "sim_engine/base/error.h"

namespace kernbench {

// Thrown by spawn() when a worker has raised.  It names the first rank that failed, in simulated
// time, and lists what the others were doing when they were unwound (PyTorch:
// ProcessRaisedException).  Its exit code is that of the worker's exception if that is an Error,
// else worker_failed.
class SpawnException : public Error {
 public:
  SpawnException(int rank, std::exception_ptr nested, ExitCode exit_code, std::string_view text)
      : Error("KB-R001", exit_code, text), rank_(rank), nested_(std::move(nested)) {}

  int rank() const { return rank_; }

  // The exception that the worker raised.
  const std::exception_ptr& nested() const { return nested_; }

 private:
  int rank_;
  std::exception_ptr nested_;
};

}  // namespace kernbench
