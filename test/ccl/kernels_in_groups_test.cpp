// A kernel written by hand serves any group of SIPs: it finds the members as its neighbours.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "ccl/core/config.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::kernels_in_groups_test {
namespace {

// The way of the guide's first algorithm: values travel once round the ring.
template <class Next, class Previous>
void rotate(tl::Context& tl, const ccl::KernelArgs& args, Next next, Previous previous) {
  tl::Tensor travelling = tl.load(args.tensor, {args.n_elem}, args.dtype);
  tl::Tensor sum = travelling;
  for (int step = 1; step < args.world_size; ++step) {
    tl.send(next, travelling);
    travelling = tl.recv(previous, {args.n_elem}, args.dtype);
    sum = sum + travelling;
  }
  tl.store(args.tensor, sum);
}

void rotate_east(tl::Context& tl, const ccl::KernelArgs& args) {
  rotate(tl, args, tl::Direction::east, tl::Direction::west);
}
void rotate_global_east(tl::Context& tl, const ccl::KernelArgs& args) {
  rotate(tl, args, tl::Direction::global_east, tl::Direction::global_west);
}
void rotate_on_ring(tl::Context& tl, const ccl::KernelArgs& args) {
  rotate(tl, args, args.ring().next, args.ring().previous);
}

void up_and_down(tl::Context& tl, const ccl::KernelArgs& args) {
  tl::Tensor sum = tl.load(args.tensor, {args.n_elem}, args.dtype);
  for (const tl::Port child : args.tree().children) {
    sum = sum + tl.recv(child, {args.n_elem}, args.dtype);
  }
  if (args.tree().parent) {
    tl.send(*args.tree().parent, sum);
    sum = tl.recv(*args.tree().parent, {args.n_elem}, args.dtype);
  }
  for (const tl::Port child : args.tree().children) tl.send(child, sum);
  tl.store(args.tensor, sum);
}

void send_north(tl::Context& tl, const ccl::KernelArgs& args) {
  tl.send({tl::Direction::north, 7}, tl.load(args.tensor, {args.n_elem}, args.dtype));
}

KERNBENCH_REGISTER_ALGORITHM("test_rotate_east", rotate_east);
KERNBENCH_REGISTER_ALGORITHM("test_rotate_global_east", rotate_global_east);
KERNBENCH_REGISTER_ALGORITHM("test_rotate_on_ring", rotate_on_ring);
KERNBENCH_REGISTER_ALGORITHM("test_up_and_down", up_and_down);
KERNBENCH_REGISTER_ALGORITHM("test_send_north", send_north);

ccl::Config config_of(const std::string& algorithm, bool one_pe) {
  return ccl::Config::parse("defaults: {algorithm: " + algorithm +
                            (one_pe ? ", participants: one_pe_per_sip}" : "}"));
}

// All groups and then the world, of which every rank gives 10^rank: a sum's digits are its members.
void check_groups(const Topology& topology, const ccl::Config& config,
                  const std::vector<std::vector<int>>& groups, const DPPolicy& dp) {
  RuntimeContext torch(topology, {.ccl = config});
  torch.distributed.init_process_group("ahbm");
  std::vector<distributed::ProcessGroup> made;
  for (const std::vector<int>& ranks : groups) {
    made.push_back(torch.distributed.new_group(ranks, {.sort_ranks = false}));
  }
  const auto sum_of = [](const std::vector<int>& ranks) {
    float sum = 0;
    for (const int rank : ranks) sum += static_cast<float>(std::pow(10, rank));
    return sum;
  };
  std::vector<int> all(static_cast<std::size_t>(topology.system.sip_count));
  std::iota(all.begin(), all.end(), 0);
  run_on_devices(torch, topology.system.sip_count, [&](int rank) {
    const auto own = [&] {
      return torch.full({1, 24}, std::pow(10, rank), {.dtype = DType::f32, .dp = dp});
    };
    Tensor whole = own();
    auto beside = torch.distributed.all_reduce(whole, {.async_op = true});
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (std::ranges::find(groups[i], rank) == groups[i].end()) continue;
      Tensor x = own();
      torch.distributed.all_reduce(x, {.group = made[i]});
      torch.distributed.all_reduce(x, {.group = made[i]});
      const float wanted = sum_of(groups[i]) * static_cast<float>(groups[i].size());
      CHECK(x.to_vector() == std::vector<float>(24, wanted));
    }
    beside.wait();
    CHECK(whole.to_vector() == std::vector<float>(24, sum_of(all)));
  });
  REQUIRE(torch.engine().algorithms_used().size() == 1);
  CHECK(torch.engine().algorithms_used()[0].algorithm == config.algorithm_name());
  CHECK(torch.engine().algorithms_used()[0].is_configured);
}

TEST_CASE("a kernel serves groups that cross, beside the group of all", "[ccl][groups][kernels]") {
  const Topology ring = round_topology(SipTopology::ring_1d, 6, 1);
  const std::vector<std::vector<int>> crossing = {{4, 1, 3}, {0, 2, 5}, {2, 3}};
  check_groups(ring, config_of("test_rotate_east", true), crossing, DPPolicy::on_one_pe());
  check_groups(ring, config_of("test_rotate_on_ring", true), crossing, DPPolicy::on_one_pe());
  check_groups(ring, config_of("test_up_and_down", true), crossing, DPPolicy::on_one_pe());
}

TEST_CASE("a kernel serves rows, columns and corners of a grid", "[ccl][groups][kernels]") {
  const std::vector<std::vector<int>> groups = {{0, 1, 3, 4}, {2, 5}, {0, 4, 5}};
  for (const SipTopology topology : {SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap}) {
    for (const std::string algorithm : {"test_rotate_on_ring", "test_up_and_down"}) {
      const auto config = ccl::Config::parse(
          "defaults: {participants: one_pe_per_sip, algorithm: " + algorithm + "}");
      check_groups(round_topology(topology, 3, 2), config, groups, DPPolicy::on_one_pe());
    }
  }
}

TEST_CASE("every holder of a shard has its lane in the group", "[ccl][groups][kernels]") {
  check_groups(round_topology(SipTopology::ring_1d, 4, 1, 2, 2),
               config_of("test_rotate_global_east", false), {{1, 3}, {3, 0, 2}},
               {.cube = Shard::column_wise, .pe = Shard::column_wise});
}

TEST_CASE("a port that the group does not have is told with those that it has",
          "[ccl][groups][kernels][errors]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 4, 1),
                       {.ccl = config_of("test_send_north", true)});
  torch.distributed.init_process_group("ahbm");
  const auto group = torch.distributed.new_group({1, 3});
  CHECK_THAT(error_of<SpawnException>([&] {
               run_on_devices(torch, 4, [&](int rank) {
                 Tensor x = torch.ones({8}, {.dp = DPPolicy::on_one_pe()});
                 if (rank % 2 == 1) torch.distributed.all_reduce(x, {.group = group});
               });
             }),
             Catch::Contains("there is no neighbour at north[7]; there are: east, west"));
}

TEST_CASE("the queues of all ranks stay when a group that ran a kernel goes", "[ccl][groups]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 4),
                       {.ccl = config_of("test_rotate_on_ring", true)});
  torch.distributed.init_process_group("ahbm");
  const auto group = torch.distributed.new_group({0, 1});
  run_on_devices(torch, 4, [&](int rank) {
    const auto sum_in = [&](const distributed::CollectiveOptions& options) {
      const Tensor x = torch.full({3}, 1, {.dp = DPPolicy::on_one_pe()});
      torch.distributed.all_reduce(x, ReduceOp::sum, options);
      return x.at({0});
    };
    if (rank < 2) {
      CHECK(sum_in({.group = group}) == 2);
      torch.distributed.destroy_process_group(group);
    }
    torch.distributed.barrier();
    CHECK(sum_in({}) == 4);
  });
}

}  // namespace
}  // namespace kernbench::test::kernels_in_groups_test
