// The sum is exact: small integers in any order and any type.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "test/ccl/all_reduce_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::all_reduce_exact_test {
namespace {

constexpr std::array kShards = {Shard::replicate, Shard::row_wise, Shard::column_wise,
                                Shard::partial};

ccl::Config queue(int depth, Bytes slot, std::string_view buffer_kind = "tcm") {
  return ccl::Config::parse(fmt::format("defaults: {{depth: {}, slot: {} B, buffer_kind: {}}}",
                                        depth, slot, buffer_kind));
}

// Every placement, with all cubes and PEs or with fewer.
std::vector<DPPolicy> placements(const Topology& topology) {
  std::vector<DPPolicy> all;
  for (const Shard cube : kShards) {
    for (const Shard pe : kShards) {
      const int fewer_cubes = topology.cube_count() - 1;
      all.push_back({.cube = cube, .pe = pe});
      all.push_back({.cube = cube, .pe = pe, .num_cubes = fewer_cubes, .num_pes = 1});
    }
  }
  return all;
}

TEST_CASE("every rank ends with the sum on rings of 1 to 8 and 16 SIPs", "[ccl][all_reduce]") {
  for (const int count : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    check_exact({.topology = round_topology(SipTopology::ring_1d, count, 1),
                 .dp = {.cube = Shard::partial, .pe = Shard::column_wise},
                 .shape = {3, 67},
                 .dtype = DType::f16});
  }
}

TEST_CASE("every rank ends with the sum on tori and meshes of 1 x 1 to 4 x 4 SIPs",
          "[ccl][all_reduce]") {
  const SipTopology kind = GENERATE(SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  for (int w = 1; w <= 4; ++w) {
    for (int h = 1; h <= 4; ++h) {
      check_exact({.topology = round_topology(kind, w, h, 2, 1),
                   .dp = {.cube = Shard::partial, .pe = Shard::row_wise},
                   .shape = {5, 21},
                   .dtype = DType::bf16});
    }
  }
}

TEST_CASE("every placement inside a SIP gives the sum", "[ccl][all_reduce]") {
  const SipTopology kind =
      GENERATE(SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  const Topology topology = round_topology(kind, 2, 2, 2, 2);
  for (const DPPolicy& dp : placements(topology)) {
    check_exact({.topology = topology, .dp = dp, .shape = {5, 7}, .dtype = DType::f16});
  }
}

TEST_CASE("cubes and PEs that make no full rectangle give the sum", "[ccl][all_reduce]") {
  Topology topology = round_topology(SipTopology::ring_1d, 2, 1, 3, 3);
  topology.cube.pe_per_corner = 3;
  topology.cube.hbm.channels = 3;
  const Shard cube = GENERATE(Shard::replicate, Shard::column_wise, Shard::partial);
  for (int cubes = 1; cubes <= 9; ++cubes) {
    const Shard pe = kShards[static_cast<std::size_t>(cubes) % kShards.size()];
    check_exact({.topology = topology,
                 .dp = {.cube = cube, .pe = pe, .num_cubes = cubes, .num_pes = 2},
                 .shape = {4, 11}});
  }
}

TEST_CASE("a root in each corner of odd and even meshes of cubes gives the sum",
          "[ccl][all_reduce]") {
  for (int w = 1; w <= 4; ++w) {
    for (int h = 1; h <= 4; ++h) {
      check_exact({.topology = round_topology(SipTopology::mesh_2d_no_wrap, 2, 1, w, h),
                   .dp = {.cube = Shard::partial, .pe = Shard::partial},
                   .shape = {13}});
    }
  }
}

TEST_CASE("no element, one, an odd number, a prime and fewer than holders give the sum",
          "[ccl][all_reduce]") {
  const SipTopology kind =
      GENERATE(SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const Topology topology = round_topology(kind, 3, 2, 2, 1);
  for (const std::int64_t n : {0, 1, 2, 3, 5, 11, 12, 13, 64, 257}) {
    check_exact({.topology = topology,
                 .dp = {.cube = Shard::column_wise, .pe = Shard::column_wise},
                 .shape = {1, n},
                 .dtype = dtype});
    check_exact({.topology = topology,
                 .dp = {.cube = Shard::partial, .pe = Shard::replicate},
                 .shape = {n},
                 .dtype = dtype});
  }
}

TEST_CASE("scalars, and shapes with three dimensions, give the sum", "[ccl][all_reduce]") {
  const Topology topology = round_topology(SipTopology::torus_2d, 3, 2, 2, 2);
  const DPPolicy dp = GENERATE(DPPolicy{.cube = Shard::row_wise, .pe = Shard::column_wise},
                               DPPolicy{.cube = Shard::column_wise, .pe = Shard::partial},
                               DPPolicy{.cube = Shard::partial, .pe = Shard::row_wise});
  for (const Shape& shape :
       {Shape{}, Shape{2, 3, 5}, Shape{1, 1, 7}, Shape{7, 1, 1}, Shape{3, 0, 2}, Shape{5, 2, 3}}) {
    check_exact({.topology = topology, .dp = dp, .shape = shape, .dtype = DType::f16});
  }
}

TEST_CASE("small slots cut a tensor in many segments, at any depth and in any memory",
          "[ccl][all_reduce]") {
  const SipTopology kind =
      GENERATE(SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  const std::string_view buffer_kind = GENERATE("tcm", "sram", "hbm");
  for (const int depth : {1, 2, 4}) {
    check_exact({.topology = round_topology(kind, 3, 2, 2, 1),
                 .dp = {.cube = Shard::partial, .pe = Shard::column_wise},
                 .shape = {1, 211},
                 .dtype = DType::f16,
                 .config = queue(depth, 4, buffer_kind)});
  }
}

TEST_CASE("no depth of the queues deadlocks on any grid", "[ccl][all_reduce]") {
  const SipTopology kind = GENERATE(SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  const int depth = GENERATE(1, 2, 3, 5);
  for (const auto& [w, h] : {std::pair{1, 4}, {4, 1}, {2, 4}, {4, 2}, {3, 3}, {4, 4}, {2, 2}}) {
    check_exact({.topology = round_topology(kind, w, h),
                 .dp = {.cube = Shard::replicate, .pe = Shard::replicate},
                 .shape = {150},
                 .config = queue(depth, 8)});
  }
}

TEST_CASE("scratch memory that is just large enough for its slots gives the sum",
          "[ccl][all_reduce]") {
  const SipTopology kind = GENERATE(SipTopology::ring_1d, SipTopology::mesh_2d_no_wrap);
  const int count = GENERATE(1, 2, 3);
  Topology topology = round_topology(kind, count, 1, 2, 2);
  topology.pe.tcm.capacity = 4096;
  check_exact({.topology = topology,
               .dp = {.cube = Shard::partial, .pe = Shard::partial},
               .shape = {4000},
               .dtype = DType::f16,
               .config = queue(2, 16384, "sram")});
}

TEST_CASE("partial becomes replicate, and the next all_reduce multiplies by the number of ranks",
          "[ccl][all_reduce]") {
  const Shard cube = GENERATE(Shard::partial, Shard::replicate);
  check_exact({.topology = round_topology(SipTopology::torus_2d, 2, 2, 2, 2),
               .dp = {.cube = cube, .pe = Shard::partial},
               .shape = {9, 5},
               .dtype = DType::f16,
               .repetitions = 3});
}

TEST_CASE("the shipped topologies give the sum", "[ccl][all_reduce]") {
  const std::string name = GENERATE("default", "ring_1d_6", "torus_2d_2x3", "torus_2d_3x2",
                                    "mesh_2d_no_wrap_2x3", "tiny", "zero_overhead");
  check_exact({.topology = Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml", name)),
               .dp = {.cube = Shard::partial, .pe = Shard::column_wise},
               .shape = {1, 100},
               .dtype = DType::f16});
}

}  // namespace
}  // namespace kernbench::test::all_reduce_exact_test
