#include "sim_engine/base/error.h"

#include <array>
#include <catch2/catch.hpp>

#include "sim_engine/base/check.h"
#include "test/support/error_text.h"

namespace kernbench::error_test {

TEST_CASE("an error carries its code in the text and its exit code beside it", "[error]") {
  const CollectiveMismatchError error("KB-C001", "ranks differ");
  CHECK(std::string(error.what()) == "[KB-C001] ranks differ");
  CHECK(error.code() == "KB-C001");
  CHECK(static_cast<int>(error.exit_code()) == 21);
}

TEST_CASE("the nearest word is found up to two edits away", "[error]") {
  constexpr std::array<std::string_view, 3> kWords = {"bandwidth", "latency", "w"};
  CHECK(nearest("banwidth", kWords) == "bandwidth");
  CHECK(nearest("latencies", kWords).empty());
  CHECK(nearest("latecny", kWords) == "latency");
  CHECK(nearest("h", kWords).empty());  // every letter differs: no likeness
}

TEST_CASE("a failed check names the file, the condition and the values", "[error]") {
  const int value = -1;
  CHECK_THROWS_WITH([&] { KB_CHECK(value >= 0, "value is {}", value); }(),
                    Catch::Contains("error_test.cpp") && Catch::Contains("value >= 0") &&
                        Catch::Contains("value is -1"));
}

TEST_CASE("Says looks for whole words, and for the code in its brackets", "[error]") {
  const std::string text = "[KB-T001] 15 is not divisible by 'a_b'";
  CHECK(test::Says("KB-T001", "15", "'a_b'", "divisible by").match(text));
  for (const char* other : {"5", "1", "a", "b'", "visible", "16"}) {
    CHECK_FALSE(test::Says("KB-T001", other).match(text));
  }
  CHECK_FALSE(test::Says("KB-T002").match(text));
  CHECK_FALSE(test::Says("KB-T002").match(UsageError("KB-T001", "not [KB-T002]")));
}

}  // namespace kernbench::error_test
