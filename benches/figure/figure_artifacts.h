// Adds the figures of a bench to its artifacts.

#pragma once

#include <string>
#include <string_view>

#include "benches/bench/bench.h"
#include "benches/figure/chart.h"

namespace kernbench::benches::figure {

// Where the program that draws is missing, or fails, a figure has no picture: the problem is noted,
// once, and pictures of earlier runs are dropped.
class FigureArtifacts {
 public:
  explicit FigureArtifacts(Bench& bench) : bench_(bench) {}

  // Adds `stem`.gp and, drawn by it, `stem`.svg and `stem`.png.  REQUIRES: the artifact of the
  // chart's CSV file, in the same folder, was added before
  void add(std::string_view stem, const Chart& chart);

  // Adds a drawing of the machine, `stem`.svg, and `stem`.png.
  void add(std::string_view stem, const std::string& svg);

 private:
  void add_picture(std::string_view stem, const Picture& picture);

  Bench& bench_;
  std::string noted_;
};

}  // namespace kernbench::benches::figure
