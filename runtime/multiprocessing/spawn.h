// torch.multiprocessing: ranks as fibers of one process.

#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

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

class World;

// As torch.multiprocessing.spawn's arguments.
struct SpawnOptions {
  bool join = true;
  bool daemon = false;  // accepted and ignored, like the next: there is one process
  std::string start_method = "spawn";
};

// Ranks that run while the caller goes on (torch's ProcessContext): until join(), whenever the
// caller waits for something.
class ProcessContext {
 public:
  explicit ProcessContext(std::shared_ptr<World> world) : world_(std::move(world)) {}

  // Returns true when all ranks have returned.  Throws as spawn().  Any number of times.
  bool join();

 private:
  std::shared_ptr<World> world_;
};

// The member `torch.multiprocessing` of a RuntimeContext.
class Multiprocessing {
 public:
  explicit Multiprocessing(RuntimeContext& torch) : torch_(torch) {}

  // Calls fn(rank, args...) for each rank in [0, nprocs), each on a fiber of its own, all beginning
  // now, and returns when all have returned.  `args` is what std::tuple or std::forward_as_tuple
  // makes: every rank gets the same objects.  Returns what the ranks returned, by rank, if they
  // return something.
  //
  // If a rank raises, the others are unwound (their destructors run once) and SpawnException is
  // thrown.  Of several that raise at one instant the lowest rank is the
  // cause, the others are listed as suppressed.  DeadlockError and CollectiveMismatchError, which
  // are about the group, are thrown as they are.  Throws CollectiveError KB-R004 inside a worker or
  // a kernel, or while the ranks of another spawn() are not joined; KB-R010 for nprocs < 1.
  template <class Function, class... Arguments>
  auto spawn(Function&& fn, std::tuple<Arguments...> args = {}, int nprocs = 1) {
    using Result = std::invoke_result_t<Function&, int, Arguments&...>;
    if constexpr (std::is_void_v<Result>) {
      start(nprocs, [&](int rank) { call(fn, rank, args); }).join();
    } else {
      std::vector<std::optional<Result>> results(static_cast<std::size_t>(std::max(nprocs, 0)));
      start(nprocs, [&](int rank) {
        results[static_cast<std::size_t>(rank)].emplace(call(fn, rank, args));
      }).join();
      std::vector<Result> all;
      for (std::optional<Result>& result : results) all.push_back(std::move(*result));
      return all;
    }
  }

  // The same with options.  fn and args are copied; what the ranks return is dropped.
  template <class Function, class... Arguments>
  ProcessContext spawn(Function fn, std::tuple<Arguments...> args, int nprocs,
                       const SpawnOptions& options) {
    ProcessContext context = start(nprocs, [fn = std::move(fn), args = std::move(args)](
                                               int rank) mutable { call(fn, rank, args); });
    if (options.join) context.join();
    return context;
  }

 private:
  template <class Function, class... Arguments>
  static decltype(auto) call(Function& fn, int rank, std::tuple<Arguments...>& args) {
    return std::apply(
        [&](auto&... arguments) -> decltype(auto) { return std::invoke(fn, rank, arguments...); },
        args);
  }

  friend class kernbench::RuntimeContext;

  ProcessContext start(int nprocs, std::function<void(int)> body);
  void report_unfinished() const;

  RuntimeContext& torch_;
  std::weak_ptr<World> last_;  // that was started
};

}  // namespace multiprocessing
}  // namespace kernbench
