// Factors and sizes are those of nccl-tests (doc/PERFORMANCE.md).

#include "benches/collectives/bus_bandwidth.h"

#include <catch2/catch.hpp>

namespace kernbench::benches::bus_bandwidth_test {

TEST_CASE("the factor of each collective is nccl-tests'", "[bus_bandwidth]") {
  const auto [collective, of_two, of_six] =
      GENERATE(Catch::Generators::table<MeasuredCollective, double, double>({
          {MeasuredCollective::all_reduce, 1, 10.0 / 6},
          {MeasuredCollective::all_gather, 0.5, 5.0 / 6},
          {MeasuredCollective::reduce_scatter, 0.5, 5.0 / 6},
          {MeasuredCollective::broadcast, 1, 1},
          {MeasuredCollective::reduce, 1, 1},
          {MeasuredCollective::all_to_all, 0.5, 5.0 / 6},
          {MeasuredCollective::gather, 0.5, 5.0 / 6},
          {MeasuredCollective::scatter, 0.5, 5.0 / 6},
          {MeasuredCollective::sendrecv, 1, 1},
      }));
  CAPTURE(name_of(collective));
  CHECK(spec_of(collective).factor.of(2) == of_two);
  CHECK(spec_of(collective).factor.of(6) == of_six);
}

TEST_CASE("a size counts the blocks of all ranks where these differ", "[bus_bandwidth]") {
  for (const MeasuredCollective collective : kMeasuredCollectives) {
    CAPTURE(name_of(collective));
    const bool is_of_one = collective == MeasuredCollective::all_reduce ||
                           collective == MeasuredCollective::broadcast ||
                           collective == MeasuredCollective::reduce ||
                           collective == MeasuredCollective::sendrecv;
    CHECK(spec_of(collective).blocks_in_size(6) == (is_of_one ? 1 : 6));
  }
}

TEST_CASE("every collective is measured out of place or in place", "[bus_bandwidth]") {
  for (const MeasuredCollective collective : kMeasuredCollectives) {
    const CollectiveSpec& spec = spec_of(collective);
    CHECK((spec.out_of_place || spec.in_place));
  }
}

TEST_CASE("a gigabyte is 10^9 bytes", "[bus_bandwidth]") {
  CHECK(algbw_gbs(1'000'000, Time{1'000'000}) == 1000);  // 1 MB in 1 us
  CHECK(algbw_gbs(1'000'000, Time{0}) == 0);
}

}  // namespace kernbench::benches::bus_bandwidth_test
