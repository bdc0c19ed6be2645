#include "benches/figure/chart.h"

#include <catch2/catch.hpp>
#include <limits>

#include "sim_engine/base/check.h"
#include "test/benches/figure/drawn.h"
#include "test/benches/program_under_test.h"

namespace kernbench::benches::figure::chart_test {

namespace {

using Catch::Contains;
using Catch::StartsWith;
using test::TemporaryFolder;

// A chart of the form with the fewest variables.
Chart chart() {
  return {.form = "step_time",
          .csv = "steps.csv",
          .title = "a title",
          .subtitle = "what was measured",
          .note = "a note",
          .key_rows = 2,
          .values = {{"steps", 2.0}}};
}

std::vector<Row> steps() {
  std::vector<Row> rows;
  for (const int tp : {1, 2}) {
    rows.push_back(Row()
                       .set("tp", tp)
                       .set("step_ns", 30'000 / tp)
                       .set("compute_ns", 24'000 / tp)
                       .set("communication_ns", 4'000)
                       .set("exposed_ns", 3'000)
                       .set("idle_ns", 30'000 / tp - 24'000 / tp - 3'000));
  }
  return rows;
}

std::string head_of(const Chart& chart) {
  const std::string script = write_script(chart, {"a.csv", "a.svg", "a.png"});
  return script.substr(0, script.find("\n\n") + 1);
}

}  // namespace

TEST_CASE("a chart's file begins with its values", "[figure][chart]") {
  CHECK(head_of(chart()) ==
        "# For gnuplot, in this folder: draws a.svg and a.png from a.csv.\n"
        "csv = 'a.csv'\n"
        "svg = 'a.svg'\n"
        "png = 'a.png'\n"
        "title = 'a title'\n"
        "title_size = 21.0\n"
        "subtitle = 'what was measured'\n"
        "subtitle_lines = 1\n"
        "note = 'a note'\n"
        "note_lines = 1\n"
        "key_rows = 2\n"
        "steps = 2.0\n");
}

TEST_CASE("values are numbers that gnuplot does not round, texts and lists", "[figure][chart]") {
  Chart one = chart();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  one.values = {{"a", 366.0},
                {"b", std::numeric_limits<double>::quiet_NaN()},
                {"c", -kInfinity},
                {"d", std::vector<double>{1, 2.5}},
                {"e", std::vector<std::string>{"tcm", "hbm"}}};
  CHECK_THAT(head_of(one), Contains("a = 366.0\nb = NaN\nc = -1.e+300\narray d[2] = [1.0, 2.5]\n"
                                    "array e[2] = ['tcm', 'hbm']\n"));
  one.values = {{"none", std::vector<double>()}};
  CHECK_THROWS_AS(head_of(one), InternalError);
  one.form = "no-such-form";
  one.values.clear();
  CHECK_THROWS_AS(head_of(one), InternalError);
}

TEST_CASE("no text of a chart is a command of gnuplot", "[figure][chart]") {
  Chart one = chart();
  one.title = "it's `echo`, \"x\" \\n @y\x1b";
  one.subtitle = "two\nlines";
  const std::string head = head_of(one);
  CHECK_THAT(head, Contains("title = 'it''s `echo`, \"x\" \\n @y '\n"));
  CHECK_THAT(head, Contains("subtitle = 'two'.\"\\n\".'lines'\nsubtitle_lines = 1\n"));
  const std::string svg = test::drawn(one, steps());
  if (svg.empty()) return;
  CHECK(test::count_drawn(svg, "it's `echo`, \"x\" \\n @y ") == 1);
}

TEST_CASE("long texts go on in another line, a long title is smaller", "[figure][chart]") {
  Chart one = chart();
  for (int i = 0; i < 40; ++i) {
    one.note += " words";
    one.title += " words";
  }
  const std::string head = head_of(one);
  CHECK_THAT(head, Contains("words'.\"\\n\".'words") && Contains("note_lines = 3\n"));
  CHECK_THAT(head, !Contains("title_size = 21.0\n"));
}

TEST_CASE("gnuplot draws a chart as SVG and PNG, twice the same", "[figure][chart]") {
  const std::string svg = test::drawn(chart(), steps());
  if (svg.empty()) return;
  for (const char* text : {"a title", "what was measured", "a note", "share of the step (%)",
                           "tp 1: 30 µs", "compute alone", "neither (launches)"}) {
    INFO(text);
    CHECK(test::count_drawn(svg, text) == 1);
  }
  CHECK(test::drawn(chart(), steps()) == svg);
}

TEST_CASE("what gnuplot says of a chart that it cannot draw is passed on, in one line",
          "[figure][chart]") {
  if (test::drawn(chart(), steps()).empty()) return;
  Chart one = chart();
  one.values.clear();
  const Picture picture = draw(one, to_csv(steps()));
  CHECK(picture.svg.empty());
  CHECK(picture.png.empty());
  CHECK_THAT(picture.problem, StartsWith("'gnuplot' exited with 1: ") &&
                                  Contains("undefined variable: steps") && !Contains("\n"));
}

TEST_CASE("without its program a picture is missing, and a line says what to install",
          "[figure][chart]") {
  CHECK(draw(chart(), "", "no-such-gnuplot").problem ==
        "there is no 'no-such-gnuplot' here; Debian's package gnuplot-nox has it");
  const Picture drawing = with_png("<svg/>", "no-such-converter");
  CHECK(drawing.svg == "<svg/>");
  CHECK(drawing.png.empty());
  CHECK(drawing.problem ==
        "there is no 'no-such-converter' here; Debian's package librsvg2-bin has it");
  CHECK(draw(chart(), "", "true").problem == "'true' drew nothing");
}

TEST_CASE("a drawing of the machine has a PNG of twice its width", "[figure][chart]") {
  const Picture picture =
      with_png("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"/>");
  if (!picture.problem.empty()) {
    WARN(picture.problem);
    return;
  }
  CHECK(picture.png.substr(12, 8) == std::string("IHDR\0\0\x07\x08", 8));  // 1800
}

}  // namespace kernbench::benches::figure::chart_test
