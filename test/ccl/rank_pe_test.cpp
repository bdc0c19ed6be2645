// rank = PE: one driver without spawn(), and each PE's shard is a participant (ADR-0024).

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <type_traits>

#include "ccl/core/layout.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::rank_pe_test {
namespace {

struct PeAllReduce {
  Topology topology;
  std::string ccl;           // text of ccl.yaml
  std::int64_t n_elem = 32;  // of each participant
  DType dtype = DType::f16;
};

Tensor make_tensor(RuntimeContext& torch, const ccl::Config& config,
                   const PeAllReduce& all_reduce) {
  const int world_size = torch.distributed.get_world_size();
  Tensor x = torch.empty(
      {1, world_size * all_reduce.n_elem},
      ccl::Layout(torch.topology(), config).placement({.dtype = all_reduce.dtype, .name = "x"}));
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<float> elements;
    for (std::int64_t i = 0; i < all_reduce.n_elem; ++i) {
      elements.push_back(small_integer(rank, 0, i));
    }
    x.copy_shard_(static_cast<std::size_t>(rank),
                  RuntimeContext::tensor(elements, {1, all_reduce.n_elem}));
  }
  return x;
}

// Every participant must end with the exact sum.
void check_exact(const PeAllReduce& all_reduce) {
  CAPTURE(all_reduce.topology.name, all_reduce.ccl, all_reduce.n_elem, name_of(all_reduce.dtype));
  const auto config = ccl::Config::parse(all_reduce.ccl);
  RuntimeContext torch(all_reduce.topology, {.ccl = config});
  torch.distributed.init_process_group("ahbm");
  const int world_size = torch.distributed.get_world_size();
  CHECK(world_size == config.world_size());
  CHECK(torch.distributed.get_rank() == 0);
  Tensor x = make_tensor(torch, config, all_reduce);
  torch.distributed.all_reduce(x);
  std::vector<float> sums(static_cast<std::size_t>(all_reduce.n_elem), 0);
  for (int rank = 0; rank < world_size; ++rank) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] += small_integer(rank, 0, static_cast<std::int64_t>(i));
    }
  }
  for (std::size_t shard = 0; shard < x.shards().size(); ++shard) {
    REQUIRE(x.shard_to_vector(shard) == sums);
  }
  const int kernels = world_size == 1 ? 0 : world_size;  // one alone has the sum
  if (all_reduce.n_elem > 0)
    CHECK(static_cast<int>(torch.engine().last_results().size()) == kernels);
}

std::string ccl_text(std::string_view algorithm, int world_size,
                     std::string_view more = "depth: 4") {
  return fmt::format("defaults: {{algorithm: {}, world_size: {}, {}}}", algorithm, world_size,
                     more);
}

Topology shipped(std::string_view name) {
  return Topology::load(fmt::format(KERNBENCH_ROOT "/topologies/{}.yaml", name));
}

TEST_CASE("the matrix of rings, meshes and trees of PEs on the default topology is exact",
          "[ccl][rank_pe]") {
  const Topology topology = shipped("default");
  CHECK(topology.system.sip_count * topology.cube_count() * topology.pe_count() == 256);
  const std::string ccl = R"(
algorithms:
  ring_allreduce_tcm: {kernel: ring_allreduce, buffer_kind: tcm, world_size: 8}
  ring_allreduce_hbm: {kernel: ring_allreduce, buffer_kind: hbm, world_size: 8}
  ring_allreduce_sram: {kernel: ring_allreduce, buffer_kind: sram, world_size: 8}
  ring_allreduce_16: {kernel: ring_allreduce, world_size: 16}
  ring_allreduce_all: {kernel: ring_allreduce, world_size: 256}
  bidirectional_ring_allreduce_all: {kernel: bidirectional_ring_allreduce, world_size: 256}
  mesh_allreduce_4: {kernel: mesh_allreduce, world_size: 4}
  mesh_allreduce_all: {kernel: mesh_allreduce, world_size: 256}
  tree_allreduce_7: {kernel: tree_allreduce, world_size: 7}
  tree_allreduce_all: {kernel: tree_allreduce, world_size: 256}
)";
  const std::string algorithm =
      GENERATE("ring_allreduce_tcm", "ring_allreduce_hbm", "ring_allreduce_sram",
               "ring_allreduce_16", "ring_allreduce_all", "bidirectional_ring_allreduce_all",
               "mesh_allreduce_4", "mesh_allreduce_all", "tree_allreduce_7", "tree_allreduce_all");
  check_exact({topology, fmt::format("defaults: {{algorithm: {}}}{}", algorithm, ccl)});
}

TEST_CASE("every algorithm over 1 to 16 PEs of a cube is exact, of any size and type",
          "[ccl][rank_pe]") {
  const std::string_view algorithm = GENERATE(from_range(kAllReduceAlgorithms));
  Topology topology = round_topology();
  topology.cube.pe_per_corner = 16;
  for (int count = 1; count <= 16; ++count) {
    for (const std::int64_t n : {0, 1, 2, count - 1, count, count + 1, 31}) {
      check_exact({topology, ccl_text(algorithm, count), n,
                   kDTypes[static_cast<std::size_t>(n) % kDTypes.size()]});
    }
  }
}

TEST_CASE("every algorithm over PEs of several cubes and SIPs is exact, in segments, in any memory",
          "[ccl][rank_pe][exhaustive]") {
  const std::string_view algorithm = GENERATE(from_range(kAllReduceAlgorithms));
  const std::string_view buffer_kind = GENERATE("tcm", "sram", "hbm");
  for (const int count : {2, 4, 6, 8, 16}) {
    for (const int depth : {1, 2, 3}) {
      const auto queues = fmt::format("depth: {}, slot: 6 B, buffer_kind: {}", depth, buffer_kind);
      check_exact({round_topology(SipTopology::mesh_2d_no_wrap, 2, 1, 2, 2),
                   ccl_text(algorithm, count, queues), 61});
    }
  }
}

TEST_CASE("auto works for PEs as ranks too", "[ccl][rank_pe]") {
  for (const int count : {1, 2, 4, 8}) {
    check_exact({round_topology(SipTopology::ring_1d, 2, 1, 2, 1), ccl_text("auto", count), 40});
  }
}

// 2 SIPs of 2 x 2 cubes of 2 PEs, of which some are ranks.
struct DriverUnderTest {
  RuntimeContext torch;

  explicit DriverUnderTest(int world_size, std::string_view algorithm = "ring_allreduce",
                           std::string_view more = "depth: 4")
      : torch(round_topology(SipTopology::ring_1d, 2, 1, 2, 2),
              {.ccl = ccl::Config::parse(ccl_text(algorithm, world_size, more))}) {}

  Tensor ones(const Shape& shape, const DPPolicy& dp, int num_sips = 1) {
    return torch.ones(shape, {.dp = dp, .name = "x", .num_sips = num_sips});
  }
  // Returns the error of all_reduce on a tensor.
  std::string misplaced(Tensor x) {
    return error_of<CollectiveError>([&] { torch.distributed.all_reduce(x); });
  }
};

constexpr DPPolicy kColumns{.cube = Shard::column_wise, .pe = Shard::column_wise};

DPPolicy columns(int cubes, int pes) {
  DPPolicy dp = kColumns;
  dp.num_cubes = cubes;
  dp.num_pes = pes;
  return dp;
}

TEST_CASE("a tensor that lies otherwise is refused with how it should lie",
          "[ccl][rank_pe][errors]") {
  DriverUnderTest driver(4);
  driver.torch.distributed.init_process_group("ahbm");
  const auto text = [](std::string_view dp, int pes) {
    return fmt::format(
        "[KB-C013] tensor 'x' ({}) lies on {} PEs: world_size in ccl.yaml is 4, and each PE is a "
        "rank with a shard of its own of the same size; use DPPolicy cube=column_wise, "
        "pe=column_wise, num_cubes=2, num_pes=2, num_sips=1 and a number of columns that it "
        "divides",
        dp, pes);
  };
  CHECK(driver.misplaced(driver.ones({1, 8}, columns(2, 2))) == "no error");
  CHECK(driver.misplaced(driver.ones({1, 8}, kColumns)) ==
        text("cube=column_wise, pe=column_wise", 8));
  CHECK(driver.misplaced(driver.ones({1, 8}, {.num_cubes = 2})) ==
        text("cube=replicate, pe=replicate, num_cubes=2", 4));
  CHECK(driver.misplaced(driver.ones({1, 7}, columns(2, 2))) ==
        text("cube=column_wise, pe=column_wise, num_cubes=2, num_pes=2", 4));
  // As many PEs, but others: one of each cube, or of the second SIP.
  CHECK(driver.misplaced(driver.ones({1, 8}, columns(4, 1))) ==
        text("cube=column_wise, pe=column_wise, num_cubes=4, num_pes=1", 4));
  driver.torch.ahbm.set_device(1);
  CHECK(driver.misplaced(driver.ones({1, 8}, columns(2, 2))) ==
        text("cube=column_wise, pe=column_wise, num_cubes=2, num_pes=2", 4));
}

TEST_CASE("rank = SIP: a tensor over several SIPs is refused", "[ccl][rank_pe][errors]") {
  RuntimeContext torch(round_topology());
  torch.distributed.init_process_group("ahbm");
  const std::string text = error_of<SpawnException>([&] {
    run_on_devices(torch, 2, [&](int rank) {
      Tensor x = torch.ones({1, 8}, {.dp = kColumns, .name = "x", .num_sips = 2 - rank});
      torch.distributed.all_reduce(x);
    });
  });
  CHECK_THAT(text, test::Says("KB-C013", "'x'", "column_wise", "4 PEs", "2 SIPs", "num_sips",
                              "world_size"));
}

TEST_CASE("ranks that are PEs have one driver: a second caller is told so",
          "[ccl][rank_pe][errors]") {
  DriverUnderTest driver(4);
  driver.torch.distributed.init_process_group("ahbm");
  std::vector<float> sums;
  const auto worker = [&](int) {
    Tensor x = driver.ones({1, 8}, columns(2, 2));
    driver.torch.distributed.all_reduce(x);
    sums = x.to_vector();
  };
  driver.torch.multiprocessing.spawn(worker, {}, 1);  // one rank is a driver too
  CHECK(sums == std::vector<float>(8, 4));
  CHECK_THAT(error_of<SpawnException>([&] { driver.torch.multiprocessing.spawn(worker, {}, 2); }),
             test::Says("KB-C006", "1", "all_reduce", "4 PEs", "world_size", "ccl.yaml"));
}

TEST_CASE("a driver's barrier returns at once", "[ccl][rank_pe]") {
  DriverUnderTest driver(8);
  driver.torch.distributed.init_process_group("ahbm");
  driver.torch.distributed.barrier();
  CHECK(driver.torch.engine().now() == Time{0});
}

TEST_CASE("a world size that fits no topology is refused when the group is made",
          "[ccl][rank_pe][errors]") {
  DriverUnderTest driver(5);
  CHECK_THAT(config_error_of([&] { driver.torch.distributed.init_process_group("ahbm"); }),
             test::Says("KB-Y041", "world_size", "5", "'round'", "16 PEs", "16", "2"));
  CHECK_FALSE(driver.torch.distributed.is_initialized());
}

TEST_CASE("init_process_group's world size must be that of ccl.yaml", "[ccl][rank_pe][errors]") {
  DriverUnderTest driver(4);
  CHECK_THAT(error_of<CollectiveError>(
                 [&] { driver.torch.distributed.init_process_group("ahbm", {.world_size = 2}); }),
             test::Says("KB-R002", "world_size", "2", "4"));
  driver.torch.distributed.init_process_group("ahbm", {.world_size = 4, .rank = 0});
}

TEST_CASE("queues that leave no room for values are refused when the group is made",
          "[ccl][rank_pe][errors]") {
  DriverUnderTest driver(4, "ring_allreduce", "depth: 2, slot: 524280 B");
  CHECK_THAT(
      error_of<ConfigError>([&] { driver.torch.distributed.init_process_group("ahbm"); }),
      Catch::StartsWith("ccl.yaml:") &&
          Catch::EndsWith(": [KB-Y044] 2 queues of 2 x 524280 B leave no room for values in a TCM "
                          "of 2097152 B; use fewer or smaller slots, or buffer_kind sram or hbm"));
  CHECK(simulation_of(driver.torch).machine().channels().empty());
}

// Four ranks need eight f32 in a third of what queues leave: 96 B of 2 MiB.
TEST_CASE("queues may leave just the room that values need", "[ccl][rank_pe][errors]") {
  DriverUnderTest just(4, "ring_allreduce", "depth: 2, slot: 524264 B");
  CHECK_NOTHROW(just.torch.distributed.init_process_group("ahbm"));
  DriverUnderTest more(4, "ring_allreduce", "depth: 2, slot: 524265 B");
  CHECK_THAT(config_error_of([&] { more.torch.distributed.init_process_group("ahbm"); }),
             test::Says("KB-Y044", "leave no room"));
}

// This kernel asks for its place in a ring, a grid or a tree.
template <class Place>
void asks_for_its_place(tl::Context&, const ccl::KernelArgs& args) {
  if constexpr (std::is_same_v<Place, ccl::RingPlace>) args.ring();
  if constexpr (std::is_same_v<Place, ccl::GridPlace>) args.grid();
  if constexpr (std::is_same_v<Place, ccl::TreePlace>) args.tree();
}

KERNBENCH_REGISTER_ALGORITHM("asks_for_ring", asks_for_its_place<ccl::RingPlace>);
KERNBENCH_REGISTER_ALGORITHM("asks_for_grid", asks_for_its_place<ccl::GridPlace>);
KERNBENCH_REGISTER_ALGORITHM("asks_for_tree", asks_for_its_place<ccl::TreePlace>);

TEST_CASE("a kernel whose neighbours are not joined is told what to set",
          "[ccl][rank_pe][errors]") {
  const auto error = [](std::string_view algorithm, std::string_view neighbours) {
    DriverUnderTest driver(4, algorithm, fmt::format("neighbours: {}", neighbours));
    driver.torch.distributed.init_process_group("ahbm");
    Tensor x = driver.ones({1, 8}, columns(2, 2));
    return error_of<DeviceError>([&] { driver.torch.distributed.all_reduce(x); });
  };
  const auto text = [](std::string_view wanted) {
    return fmt::format(
        "[KB-Q006] the kernel asks for its place in a {0}, but the PEs that are ranks are not "
        "joined so; set 'neighbours: {0}' in ccl.yaml",
        wanted);
  };
  CHECK(error("asks_for_ring", "grid") == text("ring"));
  CHECK(error("asks_for_tree", "ring") == text("tree"));
  CHECK(error("asks_for_grid", "tree") == text("grid"));
}

TEST_CASE("a tensor over several SIPs is cut in columns over them first",
          "[ccl][rank_pe][num_sips]") {
  DriverUnderTest driver(16);
  Tensor x = driver.ones({2, 8}, columns(2, 1), 2);
  std::vector<std::string> placed;
  for (const ShardInfo& shard : x.shards()) {
    placed.push_back(fmt::format("sip{}.cube{}.pe{} {} {}", shard.sip, shard.cube, shard.pe,
                                 to_string(Shape(shard.offset)), to_string(shard.shape)));
  }
  CHECK(placed ==
        std::vector<std::string>{"sip0.cube0.pe0 [0, 0] [2, 2]", "sip0.cube1.pe0 [0, 2] [2, 2]",
                                 "sip1.cube0.pe0 [0, 4] [2, 2]", "sip1.cube1.pe0 [0, 6] [2, 2]"});
  const std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  x.copy_(RuntimeContext::tensor(values, {2, 8}));
  CHECK(x.to_vector() == values);
  CHECK(x.at({1, 5}) == 13);
  CHECK(x.shard_to_vector(2) == std::vector<float>{4, 5, 12, 13});
  CHECK_THAT(error_of<DeviceError>([&] {
               driver.ones({1, 8}, kColumns, 3);
             }),
             test::Says("KB-K010", "num_sips", "3", "2"));
  driver.torch.ahbm.set_device(1);
  CHECK(driver.ones({1, 8}, kColumns, 1).shards().front().sip == 1);
  CHECK_THAT(error_of<DeviceError>([&] {
               driver.ones({1, 8}, kColumns, 2);
             }),
             test::Says("KB-K010", "num_sips", "2", "1"));
}

}  // namespace
}  // namespace kernbench::test::rank_pe_test
