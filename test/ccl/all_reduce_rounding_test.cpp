// Data that are no integers: the same bits everywhere, within the bound of per-hop rounding.

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "test/ccl/all_reduce_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::all_reduce_rounding_test {
namespace {

// In [-1, 1), a multiple of 2^-11: no type of ours but bf16 has to round it.
float fraction(int rank, int part, std::int64_t position) {
  std::uint64_t hash = static_cast<std::uint64_t>(rank * 64 + part) * 0x9e3779b97f4a7c15 +
                       static_cast<std::uint64_t>(position) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 31)) * 0x94d049bb133111eb;
  return static_cast<float>(static_cast<int>((hash >> 32) % 4096) - 2048) / 2048.0F;
}

// For bf16, which has 8 bits: a multiple of 2^-7.
float coarse_fraction(int rank, int part, std::int64_t position) {
  return std::trunc(fraction(rank, part, position) * 128.0F) / 128.0F;
}

// (m - 1) u sum |x|, with m summands each of which is rounded at most m - 1 times (RELIABILITY B1).
double bound_of(const std::vector<double>& summands, double u) {
  double magnitude = 0;
  for (const double summand : summands) magnitude += std::abs(summand);
  return static_cast<double>(summands.size() - 1) * u * magnitude;
}

struct Type {
  DType dtype;
  double unit_roundoff;
  Summand summand;
};

TEST_CASE("sums of fractions have the same bits on all ranks and stay within the bound",
          "[ccl][all_reduce]") {
  const Type type = GENERATE(values<Type>({{DType::f16, 0x1p-11, fraction},
                                           {DType::bf16, 0x1p-8, coarse_fraction},
                                           {DType::f32, 0x1p-24, fraction}}));
  const SipTopology kind =
      GENERATE(SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  const DPPolicy dp = GENERATE(DPPolicy{.cube = Shard::partial, .pe = Shard::partial},
                               DPPolicy{.cube = Shard::column_wise, .pe = Shard::replicate});
  const AllReduce all_reduce{.topology = round_topology(kind, 3, 2, 2, 2),
                             .dp = dp,
                             .shape = {7, 53},
                             .dtype = type.dtype,
                             .summand = type.summand};
  const AllReduceResult result = run(all_reduce);
  CHECK(differing_copies(all_reduce, result) == "");
  int inexact = 0;
  for (std::size_t i = 0; i < result.shards[0].size(); ++i) {
    const auto positions = positions_of(result.shards[0][i], all_reduce.shape);
    for (std::size_t k = 0; k < positions.size(); ++k) {
      const std::vector<double> summands = summands_of(all_reduce, positions[k]);
      double exact = 0;
      for (const double summand : summands) exact += summand;
      const double error = std::abs(static_cast<double>(result.elements[0][i][k]) - exact);
      CHECK(error <= bound_of(summands, type.unit_roundoff));
      inexact += error > 0 ? 1 : 0;
    }
  }
  // Sums of f16 and bf16 had to be rounded, or this shows nothing.
  if (type.dtype != DType::f32) CHECK(inexact > 0);
}

TEST_CASE("infinities and NaN stay at their element", "[ccl][all_reduce]") {
  const float infinity = std::numeric_limits<float>::infinity();
  const AllReduce all_reduce{.topology = round_topology(SipTopology::ring_1d, 3, 1),
                             .shape = {3, 5},
                             .dtype = DType::f16,
                             .summand = [=](int rank, int, std::int64_t position) {
                               if (position == 4 && rank == 1) return infinity;
                               if (position == 7) return rank == 0 ? infinity : -infinity;
                               if (position == 9 && rank == 2) return std::nanf("");
                               return 1.0F;
                             }};
  for (const auto& shards : run(all_reduce).elements) {
    for (std::size_t i = 0; i < 15; ++i) {
      CAPTURE(i);
      const float element = shards[0][i];
      if (i == 4) CHECK(element == infinity);
      if (i == 7 || i == 9) CHECK(std::isnan(element));
      if (i != 4 && i != 7 && i != 9) CHECK(element == 3.0F);
    }
  }
}

}  // namespace
}  // namespace kernbench::test::all_reduce_rounding_test
