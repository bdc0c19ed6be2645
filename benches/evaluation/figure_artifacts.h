// The figures of an evaluation bench among its artifacts: each as SVG and, if it can be, as PNG.

#pragma once

#include <string>
#include <string_view>

#include "benches/bench.h"

namespace kernbench::benches {

class FigureArtifacts {
 public:
  explicit FigureArtifacts(Bench& bench) : bench_(bench) {}

  // `stem`.svg and `stem`.png.  Without its PNG a figure is complete: the problem is noted once,
  // no other PNG is tried, and none of an earlier run stays beside the new SVG.
  void add(std::string_view stem, const std::string& svg);

 private:
  Bench& bench_;
  std::string problem_;
};

}  // namespace kernbench::benches
