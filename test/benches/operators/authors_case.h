// A case as an author might write it, each part of which a test may replace.

#pragma once

#include <string>
#include <vector>

#include "benches/operators/operator_case.h"

namespace kernbench::test {

// y = x * weight, unless `formula` says otherwise.
class AuthorsCase : public benches::operators::OperatorCase {
 public:
  using Problem = benches::operators::Problem;
  using InputSpec = benches::operators::InputSpec;

  std::string_view name() const override { return case_name; }
  std::string_view summary() const override { return "what an author has written"; }
  std::vector<InputSpec> build_inputs(const Problem& problem) const override {
    return inputs(problem);
  }
  std::vector<benches::operators::Value> forward(
      const benches::operators::Inputs& in) const override {
    return formula(in);
  }
  std::vector<benches::operators::ProviderInfo> providers() const override { return all; }
  std::vector<benches::operators::ProblemSize> checked_sizes() const override { return checked; }
  std::vector<benches::operators::ProblemSize> sizes() const override { return timed; }

  std::string case_name = "authors";
  std::function<std::vector<InputSpec>(const Problem&)> inputs = [](const Problem& problem) {
    return std::vector{benches::operators::token_input("x", problem),
                       benches::operators::parameter("weight", problem, problem.size.dim, 1, 0.25)};
  };
  benches::operators::Forward formula = [](const benches::operators::Inputs& in) {
    return std::vector{in["x"] * in["weight"]};
  };
  std::vector<benches::operators::ProviderInfo> all = {benches::operators::naive(),
                                                       benches::operators::compiled()};
  std::vector<benches::operators::ProblemSize> checked = {{1, 16, 40}};
  std::vector<benches::operators::ProblemSize> timed = {{1, 16, 40}};
};

}  // namespace kernbench::test
