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
// REQUIRE and CHECK work in ranks, but do not name the rank; exceptions do, and so do the
// assertions of this header.  INFO and CAPTURE do not work in ranks: Catch2 keeps them by thread,
// and all ranks have one, so that a failure on one rank shows those of all.

#pragma once

#if !defined(TEST_CASE) && !defined(CATCH_TEST_CASE)
#error "include <catch2/catch.hpp>, or Catch2 3's headers, before <kernbench/testing.h>"
#endif

#if __has_include(<catch2/internal/catch_test_failure_exception.hpp>)  // of Catch2 3
#include <catch2/internal/catch_test_failure_exception.hpp>
#endif

#include <exception>
#include <functional>
#include <string_view>
#include <utility>

#include "kernbench/kernbench.h"
#include "runtime/testing/assertions.h"

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
            body(rank);
          },
          {}, size());
    } catch (const SpawnException& error) {
      rethrow_if_reported(error.nested());
      throw;
    }
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

}  // namespace kernbench::testing
