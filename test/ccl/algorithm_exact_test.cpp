// Every all_reduce algorithm gives the exact sum, and the same bits on all ranks.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "test/ccl/all_reduce_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::algorithm_exact_test {
namespace {

constexpr std::array kShards = {Shard::replicate, Shard::row_wise, Shard::column_wise,
                                Shard::partial};
const DPPolicy kPartial{.cube = Shard::partial, .pe = Shard::column_wise};

ccl::Config with(std::string_view algorithm, std::string_view more = "depth: 4") {
  return ccl::Config::parse(fmt::format("defaults: {{algorithm: {}, {}}}", algorithm, more));
}

std::string_view any_algorithm() {
  return GENERATE(from_range(kAllReduceAlgorithms));
}

// 0, 1, 2, one fewer than ranks, as many, one more, and primes.
std::vector<std::int64_t> sizes(std::int64_t ranks) {
  return {0, 1, 2, ranks - 1, ranks, ranks + 1, 13, 67};
}

TEST_CASE("every algorithm gives the sum on rings of 1 to 9 and 16 SIPs, of any size",
          "[ccl][algorithms]") {
  const std::string_view algorithm = any_algorithm();
  for (const int count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16}) {
    for (const std::int64_t n : sizes(count)) {
      check_exact({.topology = round_topology(SipTopology::ring_1d, count, 1),
                   .dp = kPartial,
                   .shape = {1, n},
                   .dtype = kDTypes[static_cast<std::size_t>(n) % kDTypes.size()],
                   .config = with(algorithm)});
    }
  }
}

TEST_CASE("every algorithm gives the sum on tori and meshes of up to 4 x 4 SIPs, of any size",
          "[ccl][algorithms][exhaustive]") {
  const std::string_view algorithm = any_algorithm();
  const SipTopology kind = GENERATE(SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  for (int w = 1; w <= 4; ++w) {
    for (int h = 1; h <= 4; ++h) {
      for (const std::int64_t n : sizes(std::int64_t{w} * h)) {
        check_exact({.topology = round_topology(kind, w, h),
                     .dp = {.cube = Shard::replicate, .pe = Shard::replicate},
                     .shape = {n},
                     .dtype = kDTypes[static_cast<std::size_t>(n) % kDTypes.size()],
                     .config = with(algorithm)});
      }
    }
  }
}

TEST_CASE("every algorithm gives the sum in every placement inside a SIP",
          "[ccl][algorithms][exhaustive]") {
  const std::string_view algorithm = any_algorithm();
  const SipTopology kind = GENERATE(from_range(kGridTopologies));
  const Topology topology = round_topology(kind, 3, 2, 2, 2);
  for (const Shard cube : kShards) {
    for (const Shard pe : kShards) {
      for (const int cubes : {0, 3}) {
        check_exact({.topology = topology,
                     .dp = {.cube = cube, .pe = pe, .num_cubes = cubes},
                     .shape = {5, 7},
                     .dtype = DType::f16,
                     .config = with(algorithm)});
      }
    }
  }
}

TEST_CASE("every algorithm gives the sum of a root in the corner", "[ccl][algorithms]") {
  const std::string_view algorithm = any_algorithm();
  for (const auto& [w, h] : {std::pair{1, 1}, {2, 1}, {3, 2}, {4, 4}}) {
    for (const Shard cube : {Shard::partial, Shard::replicate}) {
      check_exact({.topology = round_topology(SipTopology::mesh_2d_no_wrap, 3, 1, w, h),
                   .dp = {.cube = cube, .pe = Shard::partial},
                   .shape = {29},
                   .config = with(algorithm, "root: corner")});
    }
  }
}

TEST_CASE("every algorithm cuts what is large in segments, at any depth and in any memory",
          "[ccl][algorithms][exhaustive]") {
  const std::string_view algorithm = any_algorithm();
  const SipTopology kind = GENERATE(from_range(kGridTopologies));
  for (const std::string_view buffer_kind : {"tcm", "sram", "hbm"}) {
    for (const int depth : {1, 2, 4}) {
      for (const int slot : {4, 6, 10}) {  // of f16: 2, 3 and 5 elements
        check_exact({.topology = round_topology(kind, 3, 2),
                     .dp = kPartial,
                     .shape = {1, 211},
                     .dtype = DType::f16,
                     .config = with(algorithm, fmt::format("depth: {}, slot: {} B, buffer_kind: {}",
                                                           depth, slot, buffer_kind))});
      }
    }
  }
}

TEST_CASE(
    "no algorithm deadlocks on any grid of up to 4 x 4 SIPs, whatever the depth of the queues",
    "[ccl][algorithms][deadlock][exhaustive]") {
  const std::string_view algorithm = any_algorithm();
  const SipTopology kind = GENERATE(from_range(kGridTopologies));
  for (int depth = 1; depth <= 8; ++depth) {
    for (int w = 1; w <= 4; ++w) {
      for (int h = 1; h <= (kind == SipTopology::ring_1d ? 1 : 4); ++h) {
        check_exact({.topology = round_topology(kind, w, h),
                     .shape = {83},
                     .config = with(algorithm, fmt::format("depth: {}, slot: 8 B", depth))});
      }
    }
  }
}

TEST_CASE("every algorithm manages with scratch memory that is just large enough",
          "[ccl][algorithms]") {
  const std::string_view algorithm = any_algorithm();
  Topology topology = round_topology(SipTopology::mesh_2d_no_wrap, 3, 2, 2, 1);
  topology.pe.tcm.capacity = 1024;
  check_exact({.topology = topology,
               .dp = {.cube = Shard::partial, .pe = Shard::partial},
               .shape = {2000},
               .dtype = DType::f16,
               .config = with(algorithm, "depth: 2, slot: 16 KiB, buffer_kind: sram")});
}

// The cubes of a SIP add up, so that one of them has most messages: not the one of node 0.
TEST_CASE("by every algorithm a sum over cubes manages with the scratch of communication",
          "[ccl][algorithms][exhaustive]") {
  const std::string_view algorithm = any_algorithm();
  Topology topology = Topology::load(KERNBENCH_ROOT "/topologies/torus_2d_2x3.yaml");
  topology.pe.tcm.capacity = 128 << 10;
  topology.communication.scratch = 42 << 10;
  const AllReduceResult result = run({.topology = topology,
                                      .dp = {.cube = Shard::partial, .pe = Shard::column_wise},
                                      .shape = {1, 1 << 16},
                                      .dtype = DType::f16,
                                      .config = with(algorithm, "slot: 512 B"),
                                      .data = false});
  CHECK(result.took > Time{0});
}

TEST_CASE("every algorithm gives equal bits of fractions on all ranks", "[ccl][algorithms]") {
  const std::string_view algorithm = any_algorithm();
  const SipTopology kind = GENERATE(from_range(kGridTopologies));
  const DType dtype = GENERATE(DType::f16, DType::bf16);
  const AllReduce all_reduce{.topology = round_topology(kind, 3, 3, 2, 1),
                             .dp = {.cube = Shard::partial, .pe = Shard::partial},
                             .shape = {7, 53},
                             .dtype = dtype,
                             .config = with(algorithm, "slot: 64 B"),
                             .summand = [](int rank, int part, std::int64_t position) {
                               return 1.0F / static_cast<float>(1 + rank + 3 * part + position);
                             }};
  CHECK(differing_copies(all_reduce, run(all_reduce)) == "");
}

TEST_CASE("three all_reduces in a row leave nothing behind, by any algorithm",
          "[ccl][algorithms]") {
  check_exact({.topology = round_topology(SipTopology::torus_2d, 2, 2, 2, 1),
               .dp = kPartial,
               .shape = {9, 5},
               .dtype = DType::f16,
               .config = with(any_algorithm(), "slot: 12 B, depth: 1"),
               .repetitions = 3});
}

TEST_CASE("every algorithm gives the sum on the shipped topologies",
          "[ccl][algorithms][exhaustive]") {
  const std::string_view algorithm = any_algorithm();
  const std::string name = GENERATE("ring_1d_6", "torus_2d_2x3", "mesh_2d_no_wrap_2x3");
  check_exact({.topology = Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml", name)),
               .dp = kPartial,
               .shape = {1, 1000},
               .dtype = DType::f16,
               .config = with(algorithm)});
}

}  // namespace
}  // namespace kernbench::test::algorithm_exact_test
