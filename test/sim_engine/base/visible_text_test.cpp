#include "sim_engine/base/visible_text.h"

#include <array>
#include <catch2/catch.hpp>

#include "sim_engine/base/error.h"

namespace kernbench::visible_text_test {
namespace {

TEST_CASE("what a terminal would obey is escaped, and what one can read is not", "[text]") {
  CHECK(visible("plain 'text' \\ \u00E9 \u4E2D \U0001F600") ==
        "plain 'text' \\ \u00E9 \u4E2D \U0001F600");
  CHECK(visible("\x1b[31mred\a\x7f") == R"(\x1b[31mred\x07\x7f)");
  CHECK(visible("a\nb\tc\r") == R"(a\nb\tc\x0d)");
  CHECK(visible(std::string_view("\0x", 2)) == R"(\x00x)");
  CHECK(visible("\u009B") == R"(\u{9b})");
}

TEST_CASE("characters that turn the direction of writing or have no width are escaped", "[text]") {
  CHECK(visible("\u202Eexe.txt\u2066") == R"(\u{202e}exe.txt\u{2066})");
  CHECK(visible("pay\u200Bpal\u00AD\uFEFF") == R"(pay\u{200b}pal\u{ad}\u{feff})");
  CHECK(visible("\u2028\u061C\uFE0F\U000E0041") == R"(\u{2028}\u{61c}\u{fe0f}\u{e0041})");
}

TEST_CASE("bytes that are no UTF-8 are shown as bytes", "[text]") {
  CHECK(visible("\xff\xc3") == R"(\xff\xc3)");
  CHECK(visible("\xc0\xaf") == R"(\xc0\xaf)");          // an overlong /
  CHECK(visible("\xed\xa0\x80") == R"(\xed\xa0\x80)");  // half of a surrogate pair
  CHECK(visible("\xf4\x90\x80\x80") == R"(\xf4\x90\x80\x80)");
  CHECK(visible("\xe4\xb8") == R"(\xe4\xb8)");
}

TEST_CASE("a buffer is never left with half of an escape", "[text]") {
  std::array<char, 8> buffer{};
  CHECK(std::string_view(buffer.data(), write_visible("abcde\x1b", buffer)) == "abcde");
  CHECK(std::string_view(buffer.data(), write_visible("abcd\x1b", buffer)) == R"(abcd\x1b)");
  CHECK(write_visible("abc", std::span(buffer).first(0)) == 0);
}

TEST_CASE("no error has anything to obey in it, and its lines stay", "[text][errors]") {
  const DeviceError error("KB-M001", "tensor '\x1b[2J'\n  second line \u202E");
  CHECK(std::string(error.what()) == "[KB-M001] tensor '\\x1b[2J'\n  second line \\u{202e}");
}

}  // namespace
}  // namespace kernbench::visible_text_test
