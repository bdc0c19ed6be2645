// Writes the sample figures into a folder, to be looked at: figure_samples FOLDER

#include <filesystem>
#include <iostream>

#include "benches/bench/output_file.h"
#include "benches/figure/png.h"
#include "test/benches/figure/samples.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: figure_samples FOLDER\n";
    return 2;
  }
  namespace figure = kernbench::benches::figure;
  const std::filesystem::path folder = argv[1];
  kernbench::benches::create_output_folder(folder);
  for (const auto& sample : kernbench::test::sample_figures()) {
    const std::string problem = figure::write_figure(folder / sample.name, sample.svg);
    if (!problem.empty()) std::cerr << problem << '\n';
  }
}
