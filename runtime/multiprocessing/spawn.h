// torch.multiprocessing: ranks as fibers of one process.

#pragma once

#include <cstddef>
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
namespace distributed {
class DistributedContext;
}
namespace runtime {
class Simulation;
}  // namespace runtime

namespace multiprocessing {

class World;

// True if spawn() can call a worker, as fn(rank, args...).  These are functions, since compilers
// explain false concepts and variables at greater length.
template <class Function, class... Arguments>
consteval bool is_worker() {
  return std::is_invocable_v<Function&, int, Arguments&...>;
}

// The type that a worker returns; void for a worker that cannot be called, which spawn() refuses.
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

// The arguments of torch.multiprocessing.spawn.
struct SpawnOptions {
  bool join = true;
  bool daemon = false;  // accepted and ignored, as is start_method: there is one process
  std::string start_method = "spawn";
};

// Ranks that run while the caller goes on (torch's ProcessContext).  Until join() they run
// whenever the caller waits for something.
class ProcessContext {
 public:
  explicit ProcessContext(std::shared_ptr<World> world) : world_(std::move(world)) {}

  // Returns true when all ranks have returned.  May be called any number of times.
  // Throws as spawn(); CollectiveError KB-R004 in one of these ranks, and in a kernel; KB-R013 if
  // the context has ended and the ranks were not joined before.
  bool join();

 private:
  std::shared_ptr<World> world_;
};

// The member `torch.multiprocessing` of a RuntimeContext.
class Multiprocessing {
 public:
  Multiprocessing(runtime::Simulation& simulation, distributed::DistributedContext& distributed)
      : simulation_(simulation), distributed_(distributed) {}

  // Calls fn(rank, args...) for each rank in [0, nprocs), each on its own fiber, all beginning
  // now, and returns when all have returned.  `args` comes from std::tuple or
  // std::forward_as_tuple: every rank gets the same objects.  Returns the ranks' results, by rank,
  // if fn returns a value.
  //
  // A rank that a fault with `detected` has ended has the result Result{}.
  // With RuntimeOptions::fold a rank that stands for others runs once, with the result of all.
  //
  // If a rank raises, the others are unwound (their destructors run once) and SpawnException is
  // thrown.  If several raise at one instant, the lowest rank is the cause, and the others are
  // listed as suppressed.  DeadlockError and CollectiveMismatchError concern the group and are
  // thrown unchanged.
  // Throws CollectiveError KB-R004 inside a worker or a kernel, or while the ranks of another
  // spawn() are not joined; KB-R010 for nprocs < 1; LimitError KB-L001 for more ranks than the
  // host can hold.
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
      return collect(std::move(results));
    }
  }

  // As spawn() without options, but fn and args are copied, and the ranks' results are dropped.
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

  // Refuses arguments that are not a tuple, with a short compiler message.
  template <class Function, class Arguments, class... Rest>
  requires(!is_tuple<Arguments>()) void spawn(Function&&, Arguments&&, Rest&&...) {
    static_assert(is_tuple<Arguments>(),
                  "spawn(fn, args, nprocs): args is a tuple, std::tuple{...} of copies or "
                  "std::forward_as_tuple(...) of what the ranks share");
  }

 private:
  template <class Function, class... Arguments>
  static decltype(auto) call(Function& fn, int rank, std::tuple<Arguments...>& args) {
    return std::apply([&](auto&... arguments) -> decltype(auto) { return fn(rank, arguments...); },
                      args);
  }

  // Returns the results by rank, where one that has not run has the result of its stand-in.
  template <class Result>
  std::vector<Result> collect(std::vector<std::optional<Result>> results) const {
    std::vector<Result> all;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::size_t stand_in = find_stand_in(i);
      if (results[i]) {
        all.push_back(std::move(*results[i]));
      } else if constexpr (std::is_copy_constructible_v<Result>) {
        all.push_back(stand_in < i ? Result(all[stand_in]) : result_of_dead<Result>(i));
      } else {
        all.push_back(result_of_dead<Result>(i));
      }
    }
    return all;
  }
  // Throws CollectiveError KB-R021 where there is no such value.
  template <class Result>
  static Result result_of_dead(std::size_t rank) {
    if constexpr (std::is_default_constructible_v<Result>) {
      return Result{};
    } else {
      throw_no_result(rank);
    }
  }
  [[noreturn]] static void throw_no_result(std::size_t rank);
  // Returns the rank whose worker runs for another one.
  std::size_t find_stand_in(std::size_t rank) const;

  friend class kernbench::RuntimeContext;

  ProcessContext start(int nprocs, std::function<void(int)> body);
  // Called when the context ends.
  void report_unfinished() const;
  void context_ends();

  runtime::Simulation& simulation_;
  distributed::DistributedContext& distributed_;
  std::weak_ptr<World> last_;                 // the last one started
  std::vector<std::weak_ptr<World>> worlds_;  // those that may still be joined
};

}  // namespace multiprocessing
}  // namespace kernbench
