#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "sim_engine/base/units.h"

namespace kernbench::test::time_format_test {

TEST_CASE("a Time prints with fmt as it is written", "[units]") {
  CHECK(fmt::format("{}", Time{18'240'500}) == "18240.5 ns");
  CHECK(fmt::format("{} and {}", Time{0}, Time{2'000'000}) == "0 ns and 2000 ns");
  CHECK(fmt::format("[{:>8}] [{:<8}] [{:*^8}]", Time{500}, Time{500}, Time{500}) ==
        "[  0.5 ns] [0.5 ns  ] [*0.5 ns*]");
}

}  // namespace kernbench::test::time_format_test
