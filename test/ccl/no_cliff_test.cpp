// A little more data takes a little more time: sizes that grow by a quarter meet no cliff, neither
// in the queues nor where a chunk needs another message.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "ccl/core/config.h"
#include "test/ccl/group_under_test.h"

namespace kernbench::test::no_cliff_test {
namespace {

// A shipped topology with one PE in each SIP, so that all messages go through one lane.
Topology with_one_pe(std::string_view name) {
  Topology topology = Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml", name));
  topology.sip.cubes_w = topology.sip.cubes_h = 1;
  topology.cube.corners = {topology.cube.corners.front()};
  topology.cube.pe_per_corner = 1;
  return topology;
}

using Collective = std::function<void(const Member&, const Tensor& block, const Tensor& all)>;

// `bytes` are those of the larger tensor.
Time time_of(const Topology& topology, int depth, Bytes bytes, const Collective& collective) {
  Time begin{0};
  Time end{0};
  RuntimeOptions options{.data = false};
  options.ccl = ccl::Config::parse(fmt::format("defaults: {{depth: {}}}", depth));
  run_group(
      topology, {0, 1, 2, 3, 4, 5},
      [&](const Member& m) {
        const Tensor block = m.torch.empty({bytes / 24}, {.dtype = DType::f32});
        const Tensor all = m.torch.empty({bytes / 24 * 6}, {.dtype = DType::f32});
        m.torch.distributed.barrier();
        begin = m.torch.engine().now();
        collective(m, block, all);
        m.torch.ahbm.synchronize();
        end = std::max(end, m.torch.engine().now());
        return std::string();
      },
      options);
  return end - begin;
}

void check_sizes(const Topology& topology, int depth, const Collective& collective) {
  constexpr Bytes kLargest = 1 << 20;
  Time before{0};
  for (Bytes bytes = 4096; bytes <= kLargest; bytes = bytes * 5 / 4) {
    const Time time = time_of(topology, depth, bytes, collective);
    CAPTURE(topology.name, depth, bytes, before.count(), time.count());
    if (before > Time{0}) {
      CHECK(1000 * time >= 995 * before);
      CHECK(100 * time <= 135 * before);
    }
    before = time;
  }
}

TEST_CASE("a quarter more bytes take a third more time at most, at any depth of queues",
          "[ccl][timing]") {
  const Topology topology = with_one_pe(GENERATE("ring_1d_6", "mesh_2d_no_wrap_2x3"));
  const int depth = GENERATE(2, 4);
  check_sizes(topology, depth, [](const Member& m, const Tensor&, const Tensor& all) {
    m.torch.distributed.all_reduce(all);
  });
  check_sizes(topology, depth, [](const Member& m, const Tensor& block, const Tensor& all) {
    m.torch.distributed.all_gather_into_tensor(all, block);
  });
  check_sizes(topology, depth, [](const Member& m, const Tensor& block, const Tensor& all) {
    m.torch.distributed.reduce_scatter_tensor(block, all);
  });
}

}  // namespace
}  // namespace kernbench::test::no_cliff_test
