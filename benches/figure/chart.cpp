#include "benches/figure/chart.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "benches/figure/chart_forms.h"
#include "benches/figure/external_program.h"
#include "benches/figure/style.h"
#include "benches/figure/text.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::figure {

namespace {

constexpr double kPageMargin = 16;
constexpr double kChartTitleSize = 21;
constexpr double kTextWidth = kPageWidth - 2 * kPageMargin;

// Between single quotes gnuplot takes every character as it is, but for a single quote, which is
// doubled, and the end of a line.
std::string literal(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    if (c == '\'') {
      quoted += "''";
    } else if (c == '\n') {
      quoted += "'.\"\\n\".'";
    } else {
      quoted += is_control ? ' ' : c;
    }
  }
  return quoted + "'";
}

std::string literal(double value) {
  if (std::isnan(value)) return "NaN";
  return fmt::format("{:#}", std::clamp(value, -1e300, 1e300));  // 3.0 / 2 is not 1
}

template <class Item>
std::string assignment(std::string_view name, const std::vector<Item>& items) {
  KB_CHECK(!items.empty(), "the list {} of a chart is empty", name);
  std::vector<std::string> literals;
  for (const Item& item : items) literals.push_back(literal(item));
  return fmt::format("array {}[{}] = [{}]\n", name, items.size(), fmt::join(literals, ", "));
}

template <class Item>
std::string assignment(std::string_view name, const Item& item) {
  return fmt::format("{} = {}\n", name, literal(item));
}

// A text in lines that the page has room for, and their number.
std::string paragraph(std::string_view name, std::string_view text, double size) {
  const std::vector<std::string> lines = wrapped(text, size, kTextWidth);
  return assignment(name, fmt::format("{}", fmt::join(lines, "\n"))) +
         fmt::format("{}_lines = {}\n", name, lines.size());
}

std::string_view chart_form(std::string_view name) {
  const EmbeddedFile* form = find_embedded_file(chart_forms(), name);
  KB_CHECK(form != nullptr, "there is no form of charts '{}'", name);
  return form->text;
}

}  // namespace

std::string write_script(const Chart& chart, const ChartFiles& files) {
  std::string text =
      fmt::format("# For gnuplot, in this folder: draws {} and {} from {}.\n", files.svg, files.png,
                  files.csv) +
      assignment("csv", files.csv) + assignment("svg", files.svg) + assignment("png", files.png) +
      assignment("title", chart.title) +
      assignment("title_size", fitting_size(chart.title, kChartTitleSize, kTextWidth)) +
      paragraph("subtitle", chart.subtitle, kTextSize) + paragraph("note", chart.note, kNoteSize) +
      fmt::format("key_rows = {}\n", chart.key_rows);
  for (const auto& [name, value] : chart.values) {
    text += std::visit([&](const auto& held) { return assignment(name, held); }, value);
  }
  return fmt::format("{}\n{}\n{}\n{}", text, chart_form("style"), chart_form(chart.form),
                     chart_form("end"));
}

Picture draw(const Chart& chart, std::string_view csv, const std::string& program) {
  const MemoryFile data(csv);
  const MemoryFile svg;
  const MemoryFile png;
  const MemoryFile script(write_script(chart, {data.path(), svg.path(), png.path()}));
  const std::string problem = run_program({program, "-d", script.path()},  // -d: no file of a user
                                          {&data, &svg, &png, &script}, "gnuplot-nox");
  if (!problem.empty()) return {{}, {}, problem};
  Picture picture{svg.content(), png.content(), {}};
  if (picture.svg.empty() || picture.png.empty()) {
    picture.problem = fmt::format("'{}' drew nothing", program);
  }
  return picture;
}

Picture with_png(const std::string& svg, const std::string& program) {
  const MemoryFile drawing(svg);
  const MemoryFile png;
  const std::string problem =
      run_program({program, "--format=png", fmt::format("--width={}", 2 * kPageWidth),
                   "--keep-aspect-ratio", "--output", png.path(), drawing.path()},
                  {&drawing, &png}, "librsvg2-bin");
  return {svg, problem.empty() ? png.content() : "", problem};
}

}  // namespace kernbench::benches::figure
