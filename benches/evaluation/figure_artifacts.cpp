#include "benches/evaluation/figure_artifacts.h"

#include <fmt/format.h>

#include <utility>

#include "benches/bench/bench_run.h"
#include "benches/figure/png.h"

namespace kernbench::benches {

namespace {

constexpr int kPngWidth = 1800;

}  // namespace

void FigureArtifacts::add(std::string_view stem, const std::string& svg) {
  const std::string png_name = fmt::format("{}.png", stem);
  bench_.add_artifact(fmt::format("{}.svg", stem), svg);
  if (problem_.empty()) {
    figure::Png png = figure::to_png(svg, kPngWidth);
    problem_ = png.problem;
    if (problem_.empty()) return bench_.add_artifact(png_name, std::move(png.bytes));
    bench_.note("no PNG", problem_);
  }
  bench_.run().drop_artifact(png_name);
}

}  // namespace kernbench::benches
