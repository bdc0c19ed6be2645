// Sums of the levels of Reproducible: the same bits whatever else is in a tensor, and however the
// summands are dealt out.

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ccl/core/config.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/values/element_format.h"
#include "test/ccl/drawn_sums.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::reproducible_test {
namespace {

using Catch::Contains;
std::unique_ptr<RuntimeContext> make_context(const Topology& topology,
                                             const std::string& ccl = "defaults: {depth: 2}") {
  auto torch = std::make_unique<RuntimeContext>(
      topology,
      RuntimeOptions{.ccl = std::make_shared<const ccl::Config>(ccl::Config::parse(ccl))});
  torch->distributed.init_process_group("ahbm");
  return torch;
}

// Batches

TEST_CASE("the bits of a batch-invariant sum do not depend on what else is summed",
          "[ccl][reproducible]") {
  const Topology topology =
      GENERATE(link_topology(SipTopology::ring_1d, 5), link_topology(SipTopology::torus_2d, 2, 3),
               link_topology(SipTopology::full_mesh, 8), link_topology(SipTopology::switched, 4));
  const Sum by = GENERATE(Sum::all_reduce, Sum::reduce, Sum::reduce_scatter);
  const int ranks = topology.system.sip_count;
  CAPTURE(topology.name, ranks, static_cast<int>(by));
  const auto torch = make_context(topology);
  constexpr std::int64_t kCount = 50;
  const auto sums = [&](std::int64_t first, std::int64_t further, Reproducible level) {
    Floats all = sums_of(*torch, ranks, by, first, kCount + further, level);
    all.resize(kCount);
    return all;
  };
  const Floats alone = sums(0, 0, Reproducible::batch);
  bool differs_otherwise = false;
  for (const auto& [first, further] : {std::pair(1, 0), std::pair(0, 1), std::pair(37, 900),
                                       std::pair(5'000, 3), std::pair(3, 20'000)}) {
    CAPTURE(first, further);
    CHECK(sums(first, further, Reproducible::batch) == alone);
    const Floats usual = sums(first, further, Reproducible::run);
    differs_otherwise |= usual != sums(0, 0, Reproducible::run);
  }
  // The usual algorithms cut tensors in chunks, whose sums begin elsewhere; those of a reduce do
  // not.
  CHECK((differs_otherwise || by == Sum::reduce));
}

// Each of four cubes has summands, which meet those of other ranks on the way to the owner.
TEST_CASE("a batch-invariant sum of several cubes does not depend on what else is summed",
          "[ccl][reproducible]") {
  const int ranks = GENERATE(2, 3, 8);
  const std::string ccl =
      GENERATE("defaults: {depth: 2}",  // a file's rule by size is one for all sizes, too
               "rules: [{all_reduce: {algorithm: direct_in_order, up_to: 1 KiB}},"
               " {all_reduce: {algorithm: tree_allreduce}}]");
  const auto torch = make_context(link_topology(SipTopology::ring_1d, ranks, 1, 2, 2), ccl);
  const auto last_sums = [&](std::int64_t count) {
    Floats last;
    run_on_devices(*torch, ranks, [&](int rank) {
      const DPPolicy dp{.cube = Shard::partial, .pe = Shard::replicate, .num_pes = 1};
      Tensor x = torch->empty({1, count}, {.dtype = DType::f16, .dp = dp});
      for (int cube = 0; cube < 4; ++cube) {
        Floats values;
        for (std::int64_t n = count; n > 0; --n) {
          values.push_back(drawn(rank * 4 + cube, n, DType::f16));
        }
        x.copy_shard_(static_cast<std::size_t>(cube), RuntimeContext::tensor(values, x.shape()));
      }
      torch->distributed.all_reduce(x, {.reproducible = Reproducible::batch});
      const Floats sums = x.to_vector<float>();
      if (rank == 0) last.assign(sums.end() - 60, sums.end());
    });
    return last;
  };
  const Floats alone = last_sums(60);
  for (const std::int64_t count : {61, 100, 1'000, 9'000}) {
    CAPTURE(ranks, count);
    CHECK(last_sums(count) == alone);
  }
}

// Ranks

struct Dealt {
  int ranks = 1;
  int pes = 1;  // of each rank, of which each has a summand
};

// Returns the sum of ranks * pes summands of `count` elements, whose n-th one is value(summand, n).
Floats sum_of(const Dealt& dealt, DType dtype, std::int64_t count,
              const std::function<float(int, std::int64_t)>& value,
              SipTopology kind = SipTopology::ring_1d) {
  Topology topology = link_topology(kind, dealt.ranks);
  topology.cube.pe_per_corner = dealt.pes;
  const auto torch = make_context(topology);
  std::vector<Floats> sums(static_cast<std::size_t>(dealt.ranks));
  run_on_devices(*torch, dealt.ranks, [&](int rank) {
    const DPPolicy dp{.cube = Shard::replicate,
                      .pe = dealt.pes > 1 ? Shard::partial : Shard::replicate,
                      .num_cubes = 1,
                      .num_pes = dealt.pes};
    Tensor x = torch->empty({count}, {.dtype = dtype, .dp = dp});
    for (int pe = 0; pe < dealt.pes; ++pe) {
      Floats values;
      for (std::int64_t n = 0; n < count; ++n) values.push_back(value(rank * dealt.pes + pe, n));
      x.copy_shard_(static_cast<std::size_t>(pe), RuntimeContext::tensor(values, x.shape()));
    }
    torch->distributed.all_reduce(x, {.reproducible = Reproducible::ranks});
    CHECK(x.dp().pe == Shard::replicate);
    sums[static_cast<std::size_t>(rank)] = x.to_vector<float>();
  });
  CHECK(std::ranges::all_of(sums, [&](const Floats& own) {
    return std::ranges::equal(own, sums.front(), [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    });
  }));
  return sums.front();
}

TEST_CASE("a rank-invariant sum has the same bits however its summands are dealt out",
          "[ccl][reproducible]") {
  const DType dtype = GENERATE(DType::f32, DType::bf16, DType::f16);
  constexpr std::int64_t kCount = 300;
  const auto value = [&](int summand, std::int64_t n) {
    return drawn(summand, n, dtype) * static_cast<float>(std::exp2(static_cast<double>(n % 9 - 4)));
  };
  for (const int summands : {12, 16}) {
    const Floats first = sum_of({1, summands}, dtype, kCount, value);
    for (const Dealt dealt : {Dealt{2, summands / 2}, Dealt{4, summands / 4}, Dealt{summands, 1}}) {
      CAPTURE(summands, dealt.ranks, dealt.pes);
      CHECK(sum_of(dealt, dtype, kCount, value) == first);
    }
    CHECK(sum_of({4, summands / 4}, dtype, kCount, value, SipTopology::full_mesh) == first);
    // It is the exact sum, rounded once, but for what is below 2^-39 of the largest summand.
    for (std::int64_t n = 0; n < kCount; ++n) {
      double exact = 0;
      double largest = 0;
      for (int summand = 0; summand < summands; ++summand) {
        exact += value(summand, n);
        largest = std::max<double>(largest, std::abs(value(summand, n)));
      }
      const float sum = first[static_cast<std::size_t>(n)];
      const float rounded = sim::round_to(dtype, static_cast<float>(exact));
      const double slack = summands * largest * 0x1p-39;
      CHECK(std::abs(sum - exact) <= std::abs(rounded - exact) + slack);
    }
  }
}

TEST_CASE("numbers of all sizes add up in fixed point, and what is no number stays so",
          "[ccl][reproducible]") {
  const float infinite = std::numeric_limits<float>::infinity();
  const Floats of_first = {0, -0.0F, 0x1p127F, 0x1p-126F, 3, infinite, 1, std::nanf(""), 1, 5};
  const Floats of_second = {0, 0, -0x1p126F, 0x1p-120F, -3, 1, -infinite, 1, 0x1p-30F, 0x1p-41F};
  const Floats sums = sum_of({2, 1}, DType::f32, 10, [&](int summand, std::int64_t n) {
    return (summand == 0 ? of_first : of_second)[static_cast<std::size_t>(n)];
  });
  CHECK(Floats(sums.begin(), sums.begin() + 5) == Floats{0, 0, 0x1p126F, 0x1p-120F, 0});
  for (const int n : {5, 6, 7}) CHECK(std::isnan(sums[static_cast<std::size_t>(n)]));
  CHECK(sums[8] == 1 + 0x1p-30F);
  CHECK(sums[9] == 5);
}

TEST_CASE("averages, integers and maxima have their level too", "[ccl][reproducible]") {
  const auto torch = make_context(link_topology(SipTopology::ring_1d, 3));
  run_on_devices(*torch, 3, [&](int rank) {
    const auto reduced = [&](double value, DType dtype, ReduceOp op) {
      const Tensor x = torch->full({4}, value, {.dtype = dtype, .dp = DPPolicy::on_one_pe()});
      torch->distributed
          .all_reduce(x, {.op = op, .async_op = true, .reproducible = Reproducible::ranks})
          .wait();
      return x.to_vector<float>();
    };
    CHECK(reduced(60'000, DType::f16, ReduceOp::avg) == Floats(4, 60'000));
    CHECK(reduced(rank, DType::i32, ReduceOp::sum) == Floats(4, 3));
    CHECK(reduced(rank, DType::f32, ReduceOp::max) == Floats(4, 2));
  });
}

TEST_CASE("the Work of a rank-invariant sum is that of all of it", "[ccl][reproducible]") {
  const auto torch = make_context(round_topology(SipTopology::ring_1d, 2));
  run_on_devices(*torch, 2, [&](int) {
    const Tensor x = torch->ones({1, 30'000}, {.dtype = DType::f32, .dp = DPPolicy::on_one_pe()});
    const Tensor y = torch->zeros({1, 30'000}, {.dtype = DType::f32, .dp = DPPolicy::on_one_pe()});
    const auto stream = torch->ahbm.Stream();
    const auto reduce = [&] {
      return torch->distributed.all_reduce(x,
                                           {.async_op = true, .reproducible = Reproducible::ranks});
    };
    const distributed::Work work = [&] {
      const auto on = torch->ahbm.stream(stream);
      return reduce();
    }();
    CHECK(!work.is_completed());
    work.wait();  // by the current stream, which is another one
    Tensor(y).copy_(x);
    torch->ahbm.synchronize();
    CHECK(work.is_completed());
    CHECK(y.to_vector<float>() == Floats(30'000, 2));
  });
}

// Errors

TEST_CASE("what a level does not serve is refused", "[ccl][reproducible][errors]") {
  const Topology topology = link_topology(SipTopology::ring_1d, 3);
  const auto refused = [&](const std::string& ccl, const auto& call) {
    const auto torch = make_context(topology, ccl);
    return error_of<Error>([&] {
      run_on_devices(*torch, 3, [&](int rank) {
        const Tensor x = torch->zeros({6}, {.dtype = DType::f32, .dp = DPPolicy::on_one_pe()});
        call(*torch, x, rank);
      });
    });
  };
  CHECK_THAT(refused("defaults: {algorithm: ring_allreduce}",
                     [](RuntimeContext& torch, const Tensor& x, int) {
                       torch.distributed.all_reduce(x, {.reproducible = Reproducible::batch});
                     }),
             Contains("KB-C027") && Contains("'ring_allreduce'") && Contains("tree_allreduce"));
  CHECK_THAT(refused("defaults: {depth: 2}",
                     [](RuntimeContext& torch, const Tensor& x, int) {
                       torch.distributed.reduce(x, 0, {.reproducible = Reproducible::ranks});
                     }),
             Contains("KB-C020") && Contains("for all_reduce with SUM or AVG"));
  CHECK_THAT(
      refused("defaults: {depth: 2}",
              [](RuntimeContext& torch, const Tensor& x, int) {
                torch.distributed.all_reduce(x, {.reproducible = Reproducible::pairs});
              }),
      Contains("KB-C020") && Contains("all_reduce of 3 ranks") && Contains("a power of two"));
  CHECK_THAT(refused("defaults: {depth: 2}",
                     [](RuntimeContext& torch, const Tensor& x, int rank) {
                       const auto level = rank == 1 ? Reproducible::batch : Reproducible::run;
                       torch.distributed.all_reduce(x, {.reproducible = level});
                     }),
             Contains("Reproducible: run vs batch") || Contains("Reproducible: batch vs run"));
}

}  // namespace
}  // namespace kernbench::test::reproducible_test
