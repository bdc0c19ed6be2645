// Tests of several ranks, for Catch2 (2 or 3):
//
//   #include <catch2/catch.hpp>
//   #include <kernbench/testing.h>
//
//   TEST_CASE("every rank ends with the sum") {
//     kernbench::testing::World world(4);
//     world.run([&](int rank) {
//       auto x = world.torch.full({1024}, rank);
//       world.torch.distributed.all_reduce(x);
//       kernbench::testing::assert_close(x, std::vector<float>(1024, 0 + 1 + 2 + 3));
//     });
//   }
//
// An exception in a rank fails the test with the rank's number and the states of the others; a
// deadlock fails it at once.  CHECK_THROWS_AS(world.run(...), kernbench::DeadlockError) and the
// like see the error's own type.
//
// A rank that loops on the host and calls nothing ends the process after 60 s, with its last call
// (KB-D004, exit code 20); RuntimeOptions::rank_time_limit of the World changes the limit.
//
// explore() runs such a test in many schedules, exhaustive() in all that can differ: testing.md.
//
// REQUIRE and CHECK work in ranks, but do not name the rank; exceptions do, and so do the
// assertions of this header.  INFO and CAPTURE do not work in ranks: Catch2 keeps them by thread,
// and all ranks have one, so that a failure on one rank shows those of all.

#pragma once

#if !defined(TEST_CASE) && !defined(CATCH_TEST_CASE)
#error "include <catch2/catch.hpp>, or Catch2 3's headers, before <kernbench/testing.h>"
#endif

#if __has_include(<catch2/interfaces/catch_interfaces_capture.hpp>)  // of Catch2 3
#include <catch2/interfaces/catch_interfaces_capture.hpp>
#endif
#if __has_include(<catch2/internal/catch_test_failure_exception.hpp>)  // of Catch2 3
#include <catch2/internal/catch_test_failure_exception.hpp>
#endif

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string_view>
#include <utility>

#include "kernbench/kernbench.h"
#include "runtime/testing/assertions.h"
#include "runtime/testing/explore.h"

namespace kernbench::testing {

// Ranks on a topology, each on the device of its own number.
class World {
 public:
  // A ring of `ranks` small devices with the backend `local`, for tests of values.  Throws
  // CollectiveError KB-R010 if there are less than one.
  explicit World(int ranks, std::string_view backend = "local") : World(ring_of(ranks), backend) {}
  // Any topology and backend; with "ahbm", collectives also take simulated time.
  explicit World(const Topology& topology, std::string_view backend = "ahbm",
                 RuntimeOptions options = {})
      : torch(topology, with_time_limit(std::move(options))) {
    torch.distributed.init_process_group(backend);
  }

  int size() const { return torch.distributed.get_world_size(); }

  // Runs body(rank) on every rank.  Throws what multiprocessing.spawn() does: SpawnException with
  // the first rank that threw, or the error of the program as a whole, as DeadlockError.  A REQUIRE
  // that failed in a rank ends the test as one outside of ranks does.
  void run(const std::function<void(int rank)>& body) {
    try {
      torch.multiprocessing.spawn(
          [&](int rank) {
            torch.ahbm.set_device(rank);
            wait_for_start(torch);
            body(rank);
          },
          {}, size());
    } catch (const SpawnException& error) {
      rethrow_if_reported(error.nested());
      throw;
    }
  }

  // Called by a rank: in an exploration, these elements must be the same in all schedules.
  void observe(std::string_view name, const Tensor& tensor) const {
    kernbench::testing::observe(torch, name, tensor);
  }

  RuntimeContext torch;

 private:
  // Rethrows the exception by which Catch2 ends a test whose failed assertion it has reported.
  static void rethrow_if_reported(const std::exception_ptr& exception) {
    try {
      std::rethrow_exception(exception);
    } catch (const Catch::TestFailureException&) {
      throw;
    } catch (...) {
      return;
    }
  }
  static RuntimeOptions with_time_limit(RuntimeOptions options) {
    if (!options.rank_time_limit) options.rank_time_limit = std::chrono::seconds(60);
    return options;
  }
};

using WorldBody = std::function<void(World& world)>;

// Returns the settings of collectives with queues of `depth` slots.  REQUIRES: they are a
// ccl::Config, or null
inline std::shared_ptr<const distributed::BackendConfig> with_depth(
    const std::shared_ptr<const distributed::BackendConfig>& settings, int depth) {
  const auto* const config = dynamic_cast<const ccl::Config*>(settings.get());
  return (config == nullptr ? ccl::Config() : *config).with_depth(depth);
}

// Makes a world for each run of an exploration, and lets the body run in it.
inline Program program_of(std::string_view backend, const WorldBody& body) {
  return [backend, &body](const ProgramRun& run) {
    RuntimeOptions options = run.options;
    if (run.depth > 0) options.ccl = with_depth(options.ccl, run.depth);
    World world(run.topology, backend, options);
    body(world);
    run.ended();
  };
}
inline ExploredTest current_test(const std::source_location& location) {
  return {Catch::getResultCapture().getCurrentTestName(), location};
}

// Runs the body in options.runs schedules, each in a world of its own, and compares what it
// computes: see explore_program().
inline ExploreReport explore(
    const ExploreOptions& options, const WorldBody& body,
    const std::source_location& location = std::source_location::current()) {
  return explore_program(options, program_of(options.backend, body), current_test(location));
}

// Runs the body in every schedule that can differ in what ranks see: see exhaust_program().
inline ExploreReport exhaustive(
    const ExhaustiveOptions& options, const WorldBody& body,
    const std::source_location& location = std::source_location::current()) {
  return exhaust_program(options, program_of(options.backend, body), current_test(location));
}

struct MinimumDepthOptions {
  int ranks = 4;  // of small devices in a ring
  std::optional<Topology> topology = std::nullopt;
  RuntimeOptions options = {};
  int deepest = 16;
};

// Returns the smallest depth of queues, up to options.deepest, with which the body does not
// deadlock on devices; nullopt if it always does.  Throws UsageError KB-U031 if `deepest` is not
// positive, and what else the body throws.
inline std::optional<int> minimum_depth(const MinimumDepthOptions& options, const WorldBody& body) {
  check_positive("MinimumDepthOptions::deepest", options.deepest);
  const Topology topology = options.topology ? *options.topology : ring_of(options.ranks);
  for (int depth = 1; depth <= options.deepest; ++depth) {
    RuntimeOptions run = options.options;
    run.ccl = with_depth(run.ccl, depth);
    try {
      World world(topology, "ahbm", run);
      body(world);
      return depth;
    } catch (const DeadlockError&) {
    }
  }
  return std::nullopt;
}

// Finds the depth of an all_reduce by name, whose messages have several slots.
inline std::optional<int> minimum_depth(std::string_view algorithm, int ranks) {
  return minimum_depth(
      {.ranks = ranks, .options = {.ccl = ccl::Config().with_algorithm(algorithm)}},
      [](World& world) {
        world.run([&](int rank) {
          const Tensor x = world.torch.full({1 << 16}, rank);
          world.torch.distributed.all_reduce(x);
          world.torch.ahbm.synchronize();
        });
      });
}

}  // namespace kernbench::testing
