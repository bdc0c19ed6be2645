// A chart: a text for gnuplot that draws the CSV file beside it, for a user to restyle.
//
//   const Chart chart{.form = "latency",
//                     .csv = "summary.csv",
//                     .title = "all_reduce: latency over size",
//                     .values = {{"topology", std::vector<std::string>{"ring_1d_6"}}}};
//   write("latency.gp", write_script(chart, {"summary.csv", "latency.svg", "latency.png"}));

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kernbench::benches::figure {

struct Chart {
  // Lists are not empty.
  using Value = std::variant<double, std::string, std::vector<double>, std::vector<std::string>>;

  std::string_view form;  // charts/FORM.gp draws it
  std::string csv;        // the name of the file that it draws
  std::string title = {};
  std::string subtitle = {};  // what was measured: topology, dtype, placement
  std::string note = {};      // below: where a reference comes from, what was left out
  int key_rows = 1;           // of the legend
  std::vector<std::pair<std::string_view, Value>> values = {};  // the form's own variables
};

// The names by which gnuplot opens the files of a chart.
struct ChartFiles {
  std::string csv;
  std::string svg;
  std::string png;
};

// The same chart gives the same bytes.  No text of a chart can become a command.
std::string write_script(const Chart& chart, const ChartFiles& files);

struct Picture {
  std::string svg;
  std::string png;
  std::string problem;  // one line; empty if there is none, and then all is there
};

inline constexpr std::string_view kGnuplot = "gnuplot";
inline constexpr std::string_view kConverter = "rsvg-convert";

// Draws a chart of this content of its CSV file.  `program` is searched for in PATH if it is a bare
// name.
Picture draw(const Chart& chart, std::string_view csv,
             const std::string& program = std::string(kGnuplot));

// Adds the PNG to a drawing of the machine, at twice its width.
Picture with_png(const std::string& svg, const std::string& program = std::string(kConverter));

}  // namespace kernbench::benches::figure
