#include "sim_engine/base/units.h"

#include <catch2/catch.hpp>

namespace kernbench::units_test {

TEST_CASE("transfer time rounds up to a whole picosecond", "[units]") {
  CHECK(transfer_time(64, Bandwidth{64'000'000'000}) == Time{1000});
  CHECK(transfer_time(1, Bandwidth{64'000'000'000}) == Time{16});  // 15.625
  CHECK(transfer_time(0, Bandwidth{1}) == Time{0});
  CHECK(transfer_time(1, Bandwidth{3'000'000'000'000}) == Time{1});
}

TEST_CASE("transfer time of terabytes does not overflow", "[units]") {
  CHECK(transfer_time(std::int64_t{1} << 40, Bandwidth{1'000'000'000'000}) ==
        Time{std::int64_t{1} << 40});
  // Both sides of the switch from 64 to 128 bits.
  for (const Bytes bytes : {9'223'370, 9'223'371, 9'223'372, 9'223'373}) {
    CHECK(transfer_time(bytes, Bandwidth{1'000'000'000}) == Time{bytes * 1000});
  }
}

TEST_CASE("an unlimited rate costs no time", "[units]") {
  CHECK(transfer_time(1 << 30, Bandwidth::unlimited()) == Time{0});
  CHECK(cycles_time(1 << 30, Frequency::unlimited()) == Time{0});
}

TEST_CASE("times and bandwidths print exactly", "[units]") {
  CHECK(to_string(Time{18'240'000}) == "18240 ns");
  CHECK(to_string(Time{15'625}) == "15.625 ns");
  CHECK(to_string(Time{5}) == "0.005 ns");
  CHECK(to_string(Bandwidth{51'200'000'000}) == "51.2 GB/s");
  CHECK(to_string(Bandwidth::unlimited()) == "unlimited");
}

}  // namespace kernbench::units_test
