// Factors and sizes are those of nccl-tests (doc/PERFORMANCE.md).

#include "benches/collectives/bus_bandwidth.h"

#include <catch2/catch.hpp>

namespace kernbench::benches::bus_bandwidth_test {

TEST_CASE("the factor of each collective is nccl-tests'", "[bus_bandwidth]") {
  const auto [collective, of_two, of_six] =
      GENERATE(Catch::Generators::table<collectives::MeasuredCollective, double, double>({
          {collectives::MeasuredCollective::all_reduce, 1, 10.0 / 6},
          {collectives::MeasuredCollective::all_gather, 0.5, 5.0 / 6},
          {collectives::MeasuredCollective::reduce_scatter, 0.5, 5.0 / 6},
          {collectives::MeasuredCollective::broadcast, 1, 1},
          {collectives::MeasuredCollective::reduce, 1, 1},
          {collectives::MeasuredCollective::all_to_all, 0.5, 5.0 / 6},
          {collectives::MeasuredCollective::gather, 0.5, 5.0 / 6},
          {collectives::MeasuredCollective::scatter, 0.5, 5.0 / 6},
          {collectives::MeasuredCollective::sendrecv, 1, 1},
      }));
  CAPTURE(name_of(collective));
  CHECK(collectives::spec_of(collective).factor.of(2) == of_two);
  CHECK(collectives::spec_of(collective).factor.of(6) == of_six);
}

TEST_CASE("a size counts the blocks of all ranks where these differ", "[bus_bandwidth]") {
  for (const collectives::MeasuredCollective collective : collectives::kMeasuredCollectives) {
    CAPTURE(name_of(collective));
    const bool is_of_one = collective == collectives::MeasuredCollective::all_reduce ||
                           collective == collectives::MeasuredCollective::broadcast ||
                           collective == collectives::MeasuredCollective::reduce ||
                           collective == collectives::MeasuredCollective::sendrecv;
    CHECK(collectives::spec_of(collective).blocks_in_size(6) == (is_of_one ? 1 : 6));
  }
}

TEST_CASE("every collective is measured out of place or in place", "[bus_bandwidth]") {
  for (const collectives::MeasuredCollective collective : collectives::kMeasuredCollectives) {
    const collectives::CollectiveSpec& spec = collectives::spec_of(collective);
    CHECK((spec.out_of_place || spec.in_place));
  }
}

TEST_CASE("a gigabyte is 10^9 bytes", "[bus_bandwidth]") {
  CHECK(collectives::algbw_gbs(1'000'000, Time{1'000'000}) == 1000);  // 1 MB in 1 us
  CHECK(collectives::algbw_gbs(1'000'000, Time{0}) == 0);
}

}  // namespace kernbench::benches::bus_bandwidth_test
