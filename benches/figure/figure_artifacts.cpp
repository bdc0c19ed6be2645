#include "benches/figure/figure_artifacts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "benches/bench/bench_run.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::figure {

void FigureArtifacts::add(std::string_view stem, const Chart& chart) {
  const BenchRun& run = bench_.run();
  if (run.output_folder.empty() || !run.leads()) return;
  const std::filesystem::path path = stem;
  const std::string csv = (path.parent_path() / chart.csv).string();
  const auto found = std::ranges::find(run.artifacts(), csv, &Artifact::name);
  KB_CHECK(found != run.artifacts().end(), "the figure {} has no {}", stem, csv);
  const std::string name = path.filename().string();
  const Picture picture = draw(chart, found->content);
  bench_.add_artifact(fmt::format("{}.gp", stem),
                      write_script(chart, {chart.csv, name + ".svg", name + ".png"}));
  add_picture(stem, picture);
}

void FigureArtifacts::add(std::string_view stem, const std::string& svg) {
  const BenchRun& run = bench_.run();
  if (run.output_folder.empty() || !run.leads()) return;
  add_picture(stem, with_png(svg));
}

void FigureArtifacts::add_picture(std::string_view stem, const Picture& picture) {
  if (!picture.problem.empty() && picture.problem != noted_) {
    noted_ = picture.problem;
    bench_.note("no picture", fmt::format("{}: {}", stem, noted_));
  }
  for (const auto& [ending, content] : {std::pair("svg", &picture.svg), {"png", &picture.png}}) {
    const std::string name = fmt::format("{}.{}", stem, ending);
    content->empty() ? bench_.run().drop_artifact(name) : bench_.add_artifact(name, *content);
  }
}

}  // namespace kernbench::benches::figure
