#include "benches/figure/svg.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <limits>

#include "sim_engine/base/check.h"
#include "test/benches/figure/svg_reader.h"

namespace kernbench::benches::figure::svg_test {

using test::named;
using test::read_svg;

TEST_CASE("a document is what was drawn, in that order", "[figure][svg]") {
  SvgWriter svg(200, 100, "a title", "a description");
  svg.line({1, 2}, {3, 4}, {.colour = "#123456", .width = 2, .dashes = "5 3"});
  svg.text({10, 20}, "words", {.size = 15, .anchor = Anchor::end, .bold = true, .turn = -90});
  const std::vector<std::string> lines = {
      R"svg(<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100" )svg"
      R"svg(viewBox="0 0 200 100" role="img" )svg"
      R"svg(font-family="DejaVu Sans, Verdana, Arial, sans-serif">)svg",
      R"svg(  <title>a title</title>)svg",
      R"svg(  <desc>a description</desc>)svg",
      R"svg(  <rect x="0" y="0" width="200" height="100" fill="#ffffff"/>)svg",
      R"svg(  <line x1="1" y1="2" x2="3" y2="4" fill="none" stroke="#123456" )svg"
      R"svg(stroke-width="2" stroke-dasharray="5 3"/>)svg",
      R"svg(  <text x="10" y="20" font-size="15" font-weight="bold" text-anchor="end" )svg"
      R"svg(fill="#222222" transform="rotate(-90 10 20)">words</text>)svg",
      R"svg(</svg>)svg"};
  CHECK(std::move(svg).finish() == fmt::format("{}\n", fmt::join(lines, "\n")));
}

TEST_CASE("each shape has its numbers", "[figure][svg]") {
  SvgWriter svg(10, 10, "", "");
  svg.rectangle({1, 2, 3, 4}, "#aaaaaa", {.colour = "#bbbbbb"}, 5);
  svg.curve({1, 2}, {3, 4}, {5, 6}, {7, 8}, {.colour = "#dddddd"});
  const auto elements = read_svg(std::move(svg).finish());
  CHECK(named(elements, "rect").back().number("rx") == 5);
  CHECK(named(elements, "rect").back().number("stroke-width") == 1.5);
  CHECK_FALSE(named(elements, "rect").front().has("stroke"));
  CHECK(named(elements, "path").front().attributes.at("d") == "M1,2 C3,4 5,6 7,8");
}

TEST_CASE("numbers have at most two decimals and no other spelling", "[figure][svg]") {
  const auto x_of = [](double x) {
    SvgWriter svg(10, 10, "", "");
    svg.line({x, 0}, {1, 1}, {});
    return named(read_svg(std::move(svg).finish()), "line").front().attributes.at("x1");
  };
  CHECK(x_of(0) == "0");
  CHECK(x_of(-0.0) == "0");
  CHECK(x_of(-0.004) == "0");
  CHECK(x_of(12) == "12");
  CHECK(x_of(12.3) == "12.3");
  CHECK(x_of(12.345678) == "12.35");
  CHECK(x_of(0.05) == "0.05");
  CHECK(x_of(-1.5) == "-1.5");
  CHECK(x_of(123456.999) == "123457");
  CHECK_THROWS_AS(x_of(std::numeric_limits<double>::quiet_NaN()), InternalError);
  CHECK_THROWS_AS(x_of(std::numeric_limits<double>::infinity()), InternalError);
}

TEST_CASE("text is escaped, and what XML cannot hold is replaced", "[figure][svg]") {
  CHECK(escaped("a < b && \"c\" > 'd'") == "a &lt; b &amp;&amp; &quot;c&quot; &gt; 'd'");
  CHECK(escaped("µs, 2 × 3, 한국어, 😀") == "µs, 2 × 3, 한국어, 😀");
  CHECK(escaped("a\tb\nc") == "a\tb\nc");
  CHECK(escaped(std::string("\0\x1b[31m", 6)) == "\uFFFD\uFFFD[31m");
  CHECK(escaped("\xEF\xBF\xBE") == "\uFFFD");  // U+FFFE
  CHECK(escaped("a\xFFz") == "a\uFFFDz");
  CHECK(escaped("\xC3") == "\uFFFD");              // cut short
  CHECK(escaped("\xC0\x80") == "\uFFFD\uFFFD");    // longer than need be
  CHECK(escaped("\xE0\x82\xA9") == "\uFFFD");      // so is this
  CHECK(escaped("\xED\xA0\x80") == "\uFFFD");      // a surrogate
  CHECK(escaped("\xF4\x90\x80\x80") == "\uFFFD");  // beyond U+10FFFF
  CHECK(escaped("\xE2\x82z") == "\uFFFDz");
}

TEST_CASE("names with markup in them come back as they were", "[figure][svg]") {
  const std::string name = "</title><script>\"&amp;\"</script>";
  SvgWriter svg(10, 10, name, name);
  svg.text({0, 0}, name, {});
  const auto elements = read_svg(std::move(svg).finish());
  CHECK(named(elements, "title").front().text == name);
  CHECK(named(elements, "desc").front().text == name);
  CHECK(named(elements, "text").front().text == name);
  CHECK(named(elements, "script").empty());
}

}  // namespace kernbench::benches::figure::svg_test
