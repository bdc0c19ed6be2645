// torch.multiprocessing: ranks as fibers of one process.

#pragma once

#include <exception>
#include <functional>
#include <tuple>
#include <utility>

#include "sim_engine/base/error.h"

namespace kernbench {

class RuntimeContext;

// A worker raised.  Names the first rank that failed, in simulated time, and lists what the others
// were doing when they were unwound.  PyTorch: ProcessRaisedException. Its exit code is that of the
// worker's exception if that is an Error, else worker_failed.
class SpawnException : public Error {
 public:
  SpawnException(int rank, std::exception_ptr nested, ExitCode exit_code, std::string_view text)
      : Error("KB-R001", exit_code, text), rank_(rank), nested_(std::move(nested)) {}

  int rank() const { return rank_; }

  // What the worker raised.
  const std::exception_ptr& nested() const { return nested_; }

 private:
  int rank_;
  std::exception_ptr nested_;
};

namespace multiprocessing {

// The member `torch.multiprocessing` of a RuntimeContext.
class Multiprocessing {
 public:
  explicit Multiprocessing(RuntimeContext& torch) : torch_(torch) {}

  // Calls fn(rank, args...) for each rank in [0, nprocs), each on a fiber of its own, all beginning
  // now, and returns when all have returned.  `args` is what std::tuple or std::forward_as_tuple
  // makes: every rank gets the same objects.
  //
  // If a rank raises, the others are unwound (their destructors run once) and SpawnException is
  // thrown.  DeadlockError and CollectiveMismatchError, which are about the group, are thrown as
  // they are.  Throws CollectiveError KB-R004 inside a worker or a kernel, KB-R010 for nprocs < 1.
  template <class Function, class... Arguments>
  void spawn(Function&& fn, std::tuple<Arguments...> args = {}, int nprocs = 1) {
    run_ranks(nprocs, [&](int rank) {
      std::apply([&](auto&... arguments) { std::invoke(fn, rank, arguments...); }, args);
    });
  }

 private:
  void run_ranks(int nprocs, const std::function<void(int)>& body);

  RuntimeContext& torch_;
};

}  // namespace multiprocessing
}  // namespace kernbench
