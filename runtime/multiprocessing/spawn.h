// torch.multiprocessing: ranks as fibers of one process.

#pragma once

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

// Tells if spawn() can call a worker: as fn(rank, args...).  Functions, since the compiler says
// more about concepts and variables that are false.
template <class Function, class... Arguments>
consteval bool is_worker() {
  return std::is_invocable_v<Function&, int, Arguments&...>;
}

// The type that a worker returns; void of one that cannot be called, which spawn() refuses.
template <class Function, class... Arguments>
struct WorkerResult {
  using type = void;
};
template <class Function, class... Arguments>
requires(is_worker<Function, Arguments...>()) struct WorkerResult<Function, Arguments...> {
  using type = std::invoke_result_t<Function&, int, Arguments&...>;
};

template <class T>
inline constexpr bool kIsTuple = false;
template <class... Arguments>
inline constexpr bool kIsTuple<std::tuple<Arguments...>> = true;
template <class T>
consteval bool is_tuple() {
  return kIsTuple<std::remove_cvref_t<T>>;
}

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
  // Throws CollectiveError KB-R004 in one of these ranks, and in a kernel; KB-R013 if the context
  // has ended and they were not joined before.
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
  // a kernel, or while the ranks of another spawn() are not joined; KB-R010 for nprocs < 1;
  // LimitError KB-L001 for more than the host can hold.
  template <class Function, class... Arguments>
  auto spawn(Function&& fn, std::tuple<Arguments...> args = {}, int nprocs = 1) {
    static_assert(is_worker<Function, Arguments...>(),
                  "spawn(fn, args, nprocs): fn is called as fn(int rank, args...), with what the "
                  "tuple args has as lvalues, and this one cannot be");
    using Result = typename WorkerResult<Function, Arguments...>::type;
    if constexpr (!is_worker<Function, Arguments...>()) {
      return;
    } else if constexpr (std::is_void_v<Result>) {
      start(nprocs, [&](int rank) { call(fn, rank, args); }).join();
    } else {
      std::vector<std::optional<Result>> results(static_cast<std::size_t>(nprocs > 0 ? nprocs : 0));
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
    static_assert(is_worker<Function, Arguments...>(),
                  "spawn(fn, args, nprocs): fn is called as fn(int rank, args...), with what the "
                  "tuple args has as lvalues, and this one cannot be");
    if constexpr (is_worker<Function, Arguments...>()) {
      ProcessContext context = start(nprocs, [fn = std::move(fn), args = std::move(args)](
                                                 int rank) mutable { call(fn, rank, args); });
      if (options.join) context.join();
      return context;
    } else {
      return ProcessContext(nullptr);
    }
  }

  // Arguments that are no tuple: refused by the compiler, in a few lines.
  template <class Function, class Arguments, class... Rest>
  requires(!is_tuple<Arguments>()) void spawn(Function&&, Arguments&&, Rest&&...) {
    static_assert(is_tuple<Arguments>(),
                  "spawn(fn, args, nprocs): args is a tuple, std::tuple{...} of copies or "
                  "std::forward_as_tuple(...) of what the ranks share");
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
  // For the end of the context.
  void report_unfinished() const;
  void context_ends();

  RuntimeContext& torch_;
  std::weak_ptr<World> last_;                 // that was started
  std::vector<std::weak_ptr<World>> worlds_;  // those that somebody may join still
};

}  // namespace multiprocessing
}  // namespace kernbench
