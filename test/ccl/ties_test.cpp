// Orders of simultaneous events, drawn at random: no value depends on them, and times hardly do.

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/ccl/all_reduce_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::ties_test {
namespace {

TEST_CASE("an all_reduce is exact in any order of simultaneous events", "[ccl][ties]") {
  const auto kind =
      GENERATE(SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  const std::string_view algorithm = GENERATE(from_range(kAllReduceAlgorithms));
  AllReduce all_reduce{.topology = round_topology(kind, 3, 2, 2, 2),
                       .dp = {.cube = Shard::column_wise, .pe = Shard::column_wise},
                       .shape = {5, 77},
                       .config = ccl::Config().with_algorithm(algorithm)};
  const AllReduceResult in_order = run(all_reduce);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    all_reduce.shuffle_ties = seed;
    CAPTURE(algorithm, seed);
    const AllReduceResult drawn = run(all_reduce);
    CHECK(wrong_sums(all_reduce, drawn) == "");
    CHECK(drawn.elements == in_order.elements);
    const AllReduceResult again = run(all_reduce);
    CHECK(again.fingerprint == drawn.fingerprint);
    CHECK(again.took == drawn.took);
  }
}

// Two flows that cross on a link would wait for each other in the order of their arrival.
TEST_CASE("a bidirectional ring does not cross itself on open lines and odd meshes",
          "[ccl][ties][timing][exhaustive]") {
  struct Shape {
    int w;
    int h;
  };
  const auto [w, h] = GENERATE(Shape{2, 1}, Shape{5, 1}, Shape{6, 1}, Shape{3, 3}, Shape{5, 3});
  const std::int64_t count = GENERATE(64, 1000, 65'536);
  AllReduce all_reduce{.topology = link_topology(SipTopology::mesh_2d_no_wrap, w, h),
                       .shape = {1, count},
                       .config = ccl::Config().with_algorithm("bidirectional_ring_allreduce"),
                       .data = false};
  Time least = run(all_reduce).took;
  Time most = least;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    all_reduce.shuffle_ties = seed;
    const Time took = run(all_reduce).took;
    least = std::min(least, took);
    most = std::max(most, took);
  }
  CAPTURE(w, h, count, least, most);
  CHECK(most == least);
}

}  // namespace
}  // namespace kernbench::test::ties_test
