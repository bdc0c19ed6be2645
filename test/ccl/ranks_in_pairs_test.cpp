// Sums of level Reproducible::pairs: one tree over ranks, on any network and in any group.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "ccl/core/config.h"
#include "test/ccl/drawn_sums.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::ranks_in_pairs_test {
namespace {

using Catch::Contains;

// Ranks [first, first + count) of what each has drawn, in pairs.
float sum_in_pairs(int first, int count, std::int64_t n, DType dtype) {
  if (count == 1) return drawn(first, n, dtype);
  return sim::round_to(dtype, sum_in_pairs(first, count / 2, n, dtype) +
                                  sum_in_pairs(first + count / 2, count / 2, n, dtype));
}

TEST_CASE("at level pairs neighbouring ranks are added in pairs, and these in pairs",
          "[ccl][reproducible]") {
  const Topology topology = GENERATE(
      link_topology(SipTopology::ring_1d, 1), link_topology(SipTopology::ring_1d, 2),
      link_topology(SipTopology::ring_1d, 8), link_topology(SipTopology::torus_2d, 2, 4),
      link_topology(SipTopology::mesh_2d_no_wrap, 4, 4), link_topology(SipTopology::full_mesh, 8),
      link_topology(SipTopology::switched, 16), joined_topology(SipTopology::torus_3d, 2, 2, 2));
  const Sum by = GENERATE(Sum::all_reduce, Sum::reduce, Sum::reduce_scatter);
  const std::string backend = GENERATE("ahbm", "local");
  const int ranks = topology.system.sip_count;
  CAPTURE(topology.name, ranks, static_cast<int>(by), backend);
  RuntimeContext torch(topology, {.reproducible = Reproducible::pairs});
  torch.distributed.init_process_group(backend);
  for (const std::int64_t count : {1, 50, 9'000}) {
    if (ranks == 1 && by == Sum::reduce) continue;  // to rank 1
    const Floats sums = sums_of(torch, ranks, by, 0, count, Reproducible::run);
    Floats expected;
    for (std::int64_t n = 0; n < count; ++n) {
      expected.push_back(sum_in_pairs(0, ranks, n, DType::f32));
    }
    CHECK(sums == expected);
  }
}

// Groups of ranks that lie anywhere, whose sums and averages in any type are those of their tree.
TEST_CASE("level pairs serves groups that are no rectangle, averages and small types",
          "[ccl][reproducible]") {
  const std::vector<int> members = GENERATE(std::vector{0, 4, 5, 6}, std::vector{3, 1, 9, 12},
                                            std::vector{0, 1, 2, 4, 8, 5, 15, 10});
  const DType dtype = GENERATE(DType::f32, DType::bf16, DType::f16);
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::avg);
  CAPTURE(members, name_of(dtype), static_cast<int>(op));
  RuntimeContext torch(link_topology(SipTopology::mesh_2d_no_wrap, 4, 4),
                       {.reproducible = Reproducible::pairs});
  torch.distributed.init_process_group("ahbm");
  constexpr std::int64_t kCount = 999;
  Floats sums;
  run_on_devices(torch, 16, [&](int rank) {
    const auto group = torch.distributed.new_group(members, {.sort_ranks = false});
    const auto member = std::ranges::find(members, rank);
    if (member == members.end()) return;
    const auto number = static_cast<int>(member - members.begin());
    Floats values;
    for (std::int64_t n = 0; n < kCount; ++n) values.push_back(drawn(number, n, dtype));
    Tensor x = torch.empty({kCount}, {.dtype = dtype, .dp = DPPolicy::on_one_pe()});
    x.copy_(RuntimeContext::tensor(values, x.shape()));
    torch.distributed.all_reduce(x, {.op = op, .group = group});
    if (number == 1) sums = x.to_vector<float>();
  });
  const auto count = static_cast<int>(members.size());
  for (std::int64_t n = 0; n < kCount; ++n) {
    const float sum = sum_in_pairs(0, count, n, dtype);
    const float divisor = op == ReduceOp::avg ? static_cast<float>(count) : 1.0F;
    // Elements of f16 are divided before; only the smallest round there.
    const bool is_small = dtype == DType::f16 && std::abs(sum) < 0.01F;
    if (!is_small) CHECK(sums[static_cast<std::size_t>(n)] == sim::round_to(dtype, sum / divisor));
  }
}

TEST_CASE("at level pairs cubes have the same sums however many ranks there are",
          "[ccl][reproducible]") {
  const std::string ccl = GENERATE("defaults: {depth: 2}", "defaults: {depth: 2, root: auto}");
  // Four ranks have summands; of eight, every other one has zeros.
  const auto sums = [&](int ranks) {
    RuntimeContext torch(link_topology(SipTopology::ring_1d, ranks, 1, 2, 2),
                         {.ccl = std::make_shared<const ccl::Config>(ccl::Config::parse(ccl)),
                          .reproducible = Reproducible::pairs});
    torch.distributed.init_process_group("ahbm");
    Floats all;
    run_on_devices(torch, ranks, [&](int rank) {
      const DPPolicy dp{.cube = Shard::partial, .pe = Shard::replicate, .num_pes = 1};
      Tensor x = torch.empty({1, 700}, {.dtype = DType::f32, .dp = dp});
      for (int cube = 0; cube < 4; ++cube) {
        Floats values;
        for (std::int64_t n = 0; n < 700; ++n) {
          const int of_four = rank * 4 / ranks;
          const bool has_some = rank * 4 % ranks == 0;
          values.push_back(has_some ? drawn(of_four * 4 + cube, n, DType::f32) : 0);
        }
        x.copy_shard_(static_cast<std::size_t>(cube), RuntimeContext::tensor(values, x.shape()));
      }
      torch.distributed.all_reduce(x);
      if (rank == 0) all = x.to_vector<float>();
    });
    return all;
  };
  CHECK(sums(8) == sums(4));
}

TEST_CASE("an algorithm that adds ranks in another order is refused at level pairs",
          "[ccl][reproducible][errors]") {
  RuntimeContext torch(link_topology(SipTopology::ring_1d, 4),
                       {.ccl = std::make_shared<const ccl::Config>(
                            ccl::Config::parse("defaults: {algorithm: ring_allreduce}"))});
  torch.distributed.init_process_group("ahbm");
  const std::string refused = error_of<Error>([&] {
    run_on_devices(torch, 4, [&](int) {
      const Tensor x = torch.zeros({6}, {.dtype = DType::f32, .dp = DPPolicy::on_one_pe()});
      torch.distributed.all_reduce(x, {.reproducible = Reproducible::pairs});
    });
  });
  CHECK_THAT(refused, Contains("KB-C027") && Contains("'ring_allreduce'") &&
                          Contains("does not add ranks in pairs") &&
                          Contains("doubling_allreduce"));
}

}  // namespace
}  // namespace kernbench::test::ranks_in_pairs_test
