// The tree over cubes has its root in the centre: fewer steps, and less time, than from a corner
// (ADR-0032).  Kernels are launched directly, without torch.distributed.

#include <algorithm>
#include <catch2/catch.hpp>

#include "ccl/kernel_launcher.h"
#include "test/ccl/kernels_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::intercube_root_center_test {
namespace {

using ccl::Root;

// 96 KiB of f16 on every cube, as the evaluation has it.
constexpr std::int64_t kElements = 49'152;

class RootUnderTest {
 public:
  RootUnderTest(const Topology& topology, Root root)
      : torch_(topology), launcher_(torch_, ccl::Config().with_root(root)) {
    for (int sip = 0; sip < topology.system.sip_count; ++sip) {
      torch_.ahbm.set_device(sip);
      tensors_.push_back(torch_.empty({1, kElements}, {.dtype = DType::f16, .dp = kOnePerCube}));
      for (std::size_t i = 0; i < tensors_.back().shards().size(); ++i) {
        const ShardInfo& shard = tensors_.back().shards()[i];
        const std::vector<float> ones(static_cast<std::size_t>(shard.shape.numel()), 1);
        tensors_.back().copy_shard_(i, RuntimeContext::tensor(ones, shard.shape));
      }
    }
  }

  // From the launch until the host knows that all is done, and what the slowest PE's kernel takes
  // of it.  Every element must end as the number of all cubes.
  struct Times {
    Time launch_to_end;
    Time slowest_kernel;
  };
  Times all_reduce() {
    const Time begin = torch_.engine().now();
    launcher_.launch(launcher_.config().algorithm(), tensors_);
    const Times times{torch_.engine().now() - begin, torch_.engine().critical_pe_exec()};
    const auto cubes =
        static_cast<float>(torch_.topology().cube_count() * torch_.topology().system.sip_count);
    for (const Tensor& x : tensors_) {
      CHECK(x.dp().cube == Shard::replicate);
      for (std::size_t i = 0; i < x.shards().size(); ++i) {
        const std::vector<float> sums = x.shard_to_vector(i);
        CHECK(std::ranges::count(sums, cubes) == x.shards()[i].shape.numel());
      }
    }
    return times;
  }

 private:
  static constexpr DPPolicy kOnePerCube{.cube = Shard::partial, .pe = Shard::column_wise};

  RuntimeContext torch_;
  const ccl::KernelLauncher launcher_;
  std::vector<Tensor> tensors_;
};

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
  const auto center = RootUnderTest(topology, Root::center).all_reduce();
  const auto corner = RootUnderTest(topology, Root::corner).all_reduce();
  CHECK(center.slowest_kernel < corner.slowest_kernel);
  CHECK(center.launch_to_end < corner.launch_to_end);
}

// The IO chiplet lies on the corner's edge: to other SIPs it is two cubes less far from there, and
// its cubes' kernels begin first.  So less is left of what the centre saves, and the slowest
// kernel, which began before the others, shows nothing of it.
TEST_CASE("on the 2 x 3 torus the centre still ends earlier than a corner", "[ccl][root]") {
  const auto topology = Topology::load(KERNBENCH_ROOT "/topologies/torus_2d_2x3.yaml");
  const auto center = RootUnderTest(topology, Root::center).all_reduce();
  const auto corner = RootUnderTest(topology, Root::corner).all_reduce();
  CHECK(center.launch_to_end < corner.launch_to_end);
}

TEST_CASE("with the IO chiplet on the other edge the centre is faster by every measure",
          "[ccl][root]") {
  auto topology = Topology::load(KERNBENCH_ROOT "/topologies/torus_2d_2x3.yaml");
  topology.sip.io_edge = Edge::east;
  const auto center = RootUnderTest(topology, Root::center).all_reduce();
  const auto corner = RootUnderTest(topology, Root::corner).all_reduce();
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
