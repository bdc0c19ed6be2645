#include "benches/figure/text.h"

#include <catch2/catch.hpp>

#include "benches/figure/number_text.h"

namespace kernbench::benches::figure::text_test {

using Lines = std::vector<std::string>;

TEST_CASE("widths are those of DejaVu Sans", "[figure][text]") {
  CHECK(text_width("", 1000) == 0);
  CHECK(text_width("iW", 1000) == 278 + 989);
  CHECK(text_width("12 ns", 1000) == 2 * 636 + 318 + 634 + 521);
  CHECK(text_width("µ", 1000) == 636);
  CHECK(text_width("한국", 10) == 20);
  CHECK(text_width("10³", 1000) == 2 * 636 + 401);
  CHECK(text_width("ab", 10) == text_width("a", 10) + text_width("b", 10));
  CHECK(text_width("a", 10, true) == Approx(1.12 * text_width("a", 10)));
}

TEST_CASE("lines are cut at blanks, a long word stays whole", "[figure][text]") {
  // Every digit is 636 wide, a blank 318.
  CHECK(wrapped("11 22 33", 1000, 3000) == Lines{"11 22", "33"});
  CHECK(wrapped("11 22 33", 1000, 10000) == Lines{"11 22 33"});
  CHECK(wrapped("11 22 33", 1000, 1) == Lines{"11", "22", "33"});
  CHECK(wrapped("1111111111 2", 1000, 2000) == Lines{"1111111111", "2"});
  CHECK(wrapped("  11   22  ", 1000, 10000) == Lines{"11 22"});
  CHECK(wrapped("", 1000, 10) == Lines{""});
  CHECK(wrapped("1\u00A02 3", 1000, 1700) == Lines{"1\u00A02", "3"});
}

TEST_CASE("a size fits if it is small enough", "[figure][text]") {
  CHECK(fitting_size("11", 10, 12.72) == 10);
  CHECK(fitting_size("11", 10, 6.36) == Approx(5));
}

TEST_CASE("numbers are written for readers", "[figure][number_text]") {
  CHECK(rounded_text(0) == "0");
  CHECK(rounded_text(0.5) == "0.5");
  CHECK(rounded_text(51.2) == "51.2");
  CHECK(rounded_text(100.0 / 3) == "33.33");
  CHECK(rounded_text(1024) == "1,024");
  CHECK(rounded_text(1'200'000) == "1,200,000");
}

TEST_CASE("sizes are written in powers of 1024", "[figure][number_text]") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(64) == "64 B");
  CHECK(bytes_text(1000) == "1,000 B");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(bytes_text(98304) == "96 KiB");
  CHECK(bytes_text(24.0 * (1 << 30)) == "24 GiB");
}

}  // namespace kernbench::benches::figure::text_test
