// Reads the results of the real torch's training runs: test/golden/torch_training.txt and
// torch_gpt.txt.

#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace kernbench::test {

struct TorchStep {
  double loss = 0;
  double norm = 0;     // of the gradients
  double sum = 0;      // of the weights
  double squares = 0;  // their sum
};

// The steps of one case: "adamw", or "adamw-f64" for the same in f64.
inline std::vector<TorchStep> torch_steps(const std::string& name,
                                          const std::string& file_name = "torch_training.txt") {
  std::ifstream file(KERNBENCH_ROOT "/test/golden/" + file_name);
  std::vector<TorchStep> steps;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string its_name;
    int number = 0;
    TorchStep step;
    words >> its_name >> number >> step.loss >> step.norm >> step.sum >> step.squares;
    if (its_name == name) steps.push_back(step);
  }
  REQUIRE(!steps.empty());
  return steps;
}

// The largest distance of torch's f32 losses from its f64 ones.
inline double compute_spread(const std::vector<TorchStep>& f32, const std::vector<TorchStep>& f64) {
  double most = 0;
  for (std::size_t i = 0; i < f32.size(); ++i) {
    most = std::max(most, std::abs(f32[i].loss - f64[i].loss));
  }
  return most;
}

}  // namespace kernbench::test
