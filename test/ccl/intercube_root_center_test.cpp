// The tree over cubes has its root in the centre: fewer steps, and less time, than from a corner
// (ADR-0032).

#include <algorithm>
#include <catch2/catch.hpp>

#include "ccl/core/spanning_tree.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/ccl/kernels_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::intercube_root_center_test {
namespace {

using ccl::Root;

// 96 KiB of f16 on every cube, as the evaluation has it.
constexpr std::int64_t kElements = 49'152;

// From the launch until the host knows that all is done, and what the slowest PE's kernel takes of
// it.
struct Times {
  Time launch_to_end;
  Time slowest_kernel{0};
};

AllReduce make_input(const Topology& topology, Root root, const ccl::Config& config) {
  return {.topology = topology,
          .dp = {.cube = Shard::partial, .pe = Shard::column_wise},
          .shape = {1, kElements},
          .dtype = DType::f16,
          .config = config.with_root(root),
          .summand = {},
          .data = false};
}

Times all_reduce(const Topology& topology, Root root, const ccl::Config& config = ccl::Config()) {
  const AllReduceResult result = run(make_input(topology, root, config));
  Times times{result.took};
  for (const runtime::KernelResult& kernel : result.kernels) {
    times.slowest_kernel = std::max(times.slowest_kernel, kernel.end - kernel.start);
  }
  return times;
}

TEST_CASE("4 x 4 cubes are 8 steps there and back from the centre, 12 from a corner",
          "[ccl][root]") {
  const auto topology = Topology::load(KERNBENCH_ROOT "/topologies/torus_2d_2x3.yaml");
  const sim::Grid cubes = sim::cube_grid(topology);
  REQUIRE(cubes.w == 4);
  REQUIRE(cubes.h == 4);
  CHECK(2 * grid_tree_depth(cubes, 16, Root::center) == 8);
  CHECK(2 * grid_tree_depth(cubes, 16, Root::corner) == 12);
}

TEST_CASE("inside a SIP the centre is faster than a corner with 96 KiB per cube", "[ccl][root]") {
  auto topology = Topology::load(KERNBENCH_ROOT "/topologies/ring_1d_6.yaml");
  topology.system.sip_count = topology.system.w = 1;
  const auto center = all_reduce(topology, Root::center);
  const auto corner = all_reduce(topology, Root::corner);
  CHECK(center.slowest_kernel < corner.slowest_kernel);
  CHECK(center.launch_to_end < corner.launch_to_end);
}

TEST_CASE("root: auto takes the root that is the fastest by the model", "[ccl][root]") {
  const ccl::Config config = ccl::Config().with_algorithm("intercube_allreduce");
  const auto time_of = [&](const std::string& name, Root root) {
    return all_reduce(Topology::load(KERNBENCH_ROOT "/topologies/" + name + ".yaml"), root, config)
        .launch_to_end;
  };
  CHECK(time_of("original_6sip", Root::automatic) == time_of("original_6sip", Root::first_corner));
  CHECK(time_of("original_6sip", Root::automatic) < time_of("original_6sip", Root::center));
  CHECK(time_of("torus_2d_2x3", Root::automatic) == time_of("torus_2d_2x3", Root::center));
  CHECK(ccl::Config::parse("defaults: {root: auto}").roots().size() == ccl::kRoots.size());
}

TEST_CASE("on six SIPs the centre is faster than the corner by every measure", "[ccl][root]") {
  const std::string name = GENERATE("torus_2d_2x3", "ring_1d_6", "mesh_2d_no_wrap_2x3");
  const auto topology = Topology::load(KERNBENCH_ROOT "/topologies/" + name + ".yaml");
  const auto center = all_reduce(topology, Root::center);
  const auto corner = all_reduce(topology, Root::corner);
  CHECK(center.launch_to_end < corner.launch_to_end);
  CHECK(center.slowest_kernel < corner.slowest_kernel);
}

// Beside the IO chiplet a root is two cubes nearer to other SIPs, and its cubes' kernels begin
// first. The centre therefore saves less (on a ring nothing), and the slowest kernel, which began
// before the others, shows nothing of it.
TEST_CASE("on the 2 x 3 torus the centre still ends earlier than the corner beside the IO chiplet",
          "[ccl][root]") {
  const auto topology = Topology::load(KERNBENCH_ROOT "/topologies/torus_2d_2x3.yaml");
  CHECK(all_reduce(topology, Root::center).launch_to_end <
        all_reduce(topology, Root::first_corner).launch_to_end);
}

// A guard of the time model as a whole: whoever changes it on purpose changes this figure, too.
TEST_CASE("96 KiB per cube take the time that they took", "[ccl][root]") {
  const auto topology = Topology::load(KERNBENCH_ROOT "/topologies/torus_2d_2x3.yaml");
  CHECK(to_ns(all_reduce(topology, Root::center).slowest_kernel) == Approx(4'037).epsilon(0.05));
}

TEST_CASE("from either root every element of 96 KiB per cube ends as the sum",
          "[ccl][root][exhaustive]") {
  auto input = make_input(Topology::load(KERNBENCH_ROOT "/topologies/torus_2d_2x3.yaml"),
                          GENERATE(Root::center, Root::corner), ccl::Config());
  input.data = true;
  input.summand = [](int, int, std::int64_t) { return 1.0F; };
  CHECK(wrong_sums(input, run(input)) == "");
}

TEST_CASE("the original's machine takes the 17.2 and 22.0 us that it printed", "[ccl][root]") {
  const std::string path = KERNBENCH_ROOT "/topologies/original_6sip";
  const auto topology = Topology::load(path + ".yaml");
  const auto config = ccl::Config::load(path + "/ccl.yaml");
  const auto center = all_reduce(topology, Root::center, config);
  const auto corner = all_reduce(topology, Root::corner, config);
  CHECK(to_ns(center.slowest_kernel) == Approx(17'200).epsilon(0.05));
  CHECK(to_ns(corner.slowest_kernel) == Approx(22'000).epsilon(0.05));
}

TEST_CASE("on the original's ring and mesh the centre is faster, too", "[ccl][root]") {
  const std::string path = KERNBENCH_ROOT "/topologies/original_6sip";
  auto topology = Topology::load(path + ".yaml");
  const auto config = ccl::Config::load(path + "/ccl.yaml");
  topology.system.topology = GENERATE(SipTopology::ring_1d, SipTopology::mesh_2d_no_wrap);
  if (topology.system.topology == SipTopology::ring_1d) {
    topology.system.w = 6;
    topology.system.h = 1;
  }
  CHECK(all_reduce(topology, Root::center, config).slowest_kernel <
        all_reduce(topology, Root::corner, config).slowest_kernel);
}

TEST_CASE("with the IO chiplet on the other edge the centre is faster by every measure",
          "[ccl][root]") {
  auto topology = Topology::load(KERNBENCH_ROOT "/topologies/torus_2d_2x3.yaml");
  topology.sip.io_edge = Edge::east;
  const auto center = all_reduce(topology, Root::center);
  const auto corner = all_reduce(topology, Root::first_corner);
  CHECK(center.launch_to_end < corner.launch_to_end);
  CHECK(center.slowest_kernel < corner.slowest_kernel);
}

TEST_CASE("with links alone the steps are the whole difference", "[ccl][root]") {
  // One message, between cubes only: 20 ns and 96 KiB at 128 GB/s in each step.
  const Topology topology = link_topology(SipTopology::mesh_2d_no_wrap, 1, 1, 4, 4);
  const Time step = Time{20'000} + Time{768'000};
  const auto time_of = [&](Root root) {
    const auto config = ccl::Config::parse("defaults: {slot: 1 MiB, buffer_kind: sram}");
    return KernelsUnderTest(topology, {.cube = Shard::partial}, config.with_root(root))
        .run(kElements / 2);  // f32
  };
  CHECK(time_of(Root::center) == 8 * step);
  CHECK(time_of(Root::corner) == 12 * step);
}

}  // namespace
}  // namespace kernbench::test::intercube_root_center_test
