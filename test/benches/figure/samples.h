// Figures of made-up but realistic data, as the evaluation benches draw them.

#pragma once

#include <string>
#include <vector>

namespace kernbench::test {

struct SampleFigure {
  std::string name;
  std::string svg;
};

std::vector<SampleFigure> sample_figures();

}  // namespace kernbench::test
