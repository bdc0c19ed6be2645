// Draws charts as the program does.

#pragma once

#include <catch2/catch.hpp>
#include <span>
#include <string>

#include "benches/bench/row.h"
#include "benches/figure/chart.h"

namespace kernbench::test {

// Returns the SVG, and checks that there is a PNG; empty where gnuplot is not installed.
inline std::string drawn(const benches::figure::Chart& chart, std::span<const benches::Row> rows) {
  const benches::figure::Picture picture = draw(chart, benches::to_csv(rows));
  if (picture.problem.starts_with("there is no")) {
    WARN(picture.problem);
    return {};
  }
  CHECK(picture.problem.empty());
  CHECK(picture.png.starts_with("\x89PNG\r\n\x1a\n"));
  return picture.svg;
}

// Counts the texts of an SVG that gnuplot wrote which are these words.
inline int count_drawn(const std::string& svg, const std::string& words) {
  const std::string text = ">" + words + "</text>";
  int count = 0;
  for (std::size_t at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace kernbench::test
