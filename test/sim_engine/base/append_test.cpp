#include "sim_engine/base/append.h"

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>

namespace kernbench::append_test {
namespace {

TEST_CASE("append writes behind what is there", "[text]") {
  std::string out = "at ";
  append(out, "{}.{:06}", 3, 25);
  CHECK(out == "at 3.000025");
}

TEST_CASE("format_into drops what has no room", "[text]") {
  std::array<char, 8> out{};
  CHECK(format_into(out, "rank {}", 7) == 6);
  CHECK(std::string_view(out.data(), 6) == "rank 7");
  CHECK(format_into(out, "rank {} of {}", 7, 8) == 8);
  CHECK(std::string_view(out.data(), 8) == "rank 7 o");
  CHECK(format_into({}, "rank {}", 7) == 0);
}

}  // namespace
}  // namespace kernbench::append_test
