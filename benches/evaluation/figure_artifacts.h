// Adds the figures of an evaluation bench to its artifacts, each as SVG and, if possible, as PNG.

#pragma once

#include <string>
#include <string_view>

#include "benches/bench/bench.h"

namespace kernbench::benches {

class FigureArtifacts {
 public:
  explicit FigureArtifacts(Bench& bench) : bench_(bench) {}

  // Adds `stem`.svg and `stem`.png.  A figure is complete without its PNG: if a conversion fails,
  // the problem is noted once, no further PNG is tried, and PNGs of earlier runs are dropped.
  void add(std::string_view stem, const std::string& svg);

 private:
  Bench& bench_;
  std::string problem_;
};

}  // namespace kernbench::benches
