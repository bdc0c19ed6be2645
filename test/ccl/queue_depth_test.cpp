// The depth of queues is no cliff: with two slots a collective takes as long as with sixteen, and
// the time of an empty message at most.  That is when the news of a posted receive is with its
// sender.

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "ccl/core/config.h"
#include "sim_engine/components/routing.h"
#include "test/ccl/group_under_test.h"

namespace kernbench::test::queue_depth_test {
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

Time empty_message(const Topology& topology) {
  const sim::Endpoint from{sim::Endpoint::Kind::tcm, {0, 0, 0}};
  const sim::Endpoint to{sim::Endpoint::Kind::tcm, {1, 0, 0}};
  const Topology::Pe& pe = topology.pe;
  return sim::Routing(topology).route(from, to).latency + pe.scheduler_dispatch + pe.dma_setup +
         pe.ipcq_latency;
}

void check_depths(const Topology& topology, const Collective& collective) {
  const Time news = empty_message(topology);
  for (Bytes bytes = 4096; bytes <= 1 << 20; bytes = bytes * 3 / 2) {
    const Time shallow = time_of(topology, 2, bytes, collective);
    const Time deep = time_of(topology, 16, bytes, collective);
    CAPTURE(topology.name, bytes, shallow.count(), deep.count(), news.count());
    CHECK(shallow <= deep + news);
  }
}

TEST_CASE("two slots of a queue do as well as sixteen, but for an empty message", "[ccl][timing]") {
  const Topology topology =
      with_one_pe(GENERATE("ring_1d_6", "mesh_2d_no_wrap_2x3", "torus_2d_2x3"));
  check_depths(topology, [](const Member& m, const Tensor&, const Tensor& all) {
    m.torch.distributed.all_reduce(all);
  });
  check_depths(topology, [](const Member& m, const Tensor& block, const Tensor& all) {
    m.torch.distributed.all_gather_into_tensor(all, block);
  });
  check_depths(topology, [](const Member& m, const Tensor& block, const Tensor& all) {
    m.torch.distributed.reduce_scatter_tensor(block, all);
  });
}

}  // namespace
}  // namespace kernbench::test::queue_depth_test
