// A case at a small size on the host alone: its graph in f64 (reference.h).

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "benches/operators/input_elements.h"
#include "benches/operators/operator_case.h"
#include "benches/operators/reference.h"

namespace kernbench::test {

using benches::operators::Definition;
using benches::operators::Direction;
using benches::operators::NodeId;
using benches::operators::Rows;

// Elements of all inputs of the graph: multiples of 2^-10, so that a step of 2^-10 is exact.
class OperatorUnderTest {
 public:
  explicit OperatorUnderTest(Definition definition) : definition_(std::move(definition)) {
    using benches::operators::ElementSource;
    using benches::operators::InputSpec;
    std::vector<InputSpec> specs = definition_.inputs;
    for (const NodeId id : definition_.upstream) {
      specs.push_back({.name = "dy", .extents = definition_.node(id).extents});
    }
    for (const InputSpec& spec : specs) {
      const std::int64_t rows = spec.extents.rows == Rows::tokens    ? tokens()
                                : spec.extents.rows == Rows::experts ? spec.experts
                                                                     : 1;
      const int number = static_cast<int>(elements.size());
      elements.push_back(ElementSource(spec, 1, number).rows(0, rows));
      if (!spec.elements.empty()) elements.back() = spec.elements;
      for (float& element : elements.back()) element = std::round(element * 1024) / 1024;
    }
  }

  const Definition& definition() const { return definition_; }
  std::int64_t tokens() const { return definition_.problem.size.tokens(); }

  // The results of a direction: all elements of each, row by row.
  std::vector<std::vector<double>> results(Direction direction) const {
    using benches::operators::Reference;
    Reference reference(definition_, tokens());
    for (std::size_t i = 0; i < definition_.inputs.size(); ++i) {
      const bool has_tokens = definition_.inputs[i].extents.rows == Rows::tokens;
      if (!has_tokens) reference.set_parameter(static_cast<int>(i), elements[i]);
    }
    const std::vector<NodeId> nodes = definition_.results(direction);
    std::vector<std::vector<double>> results(nodes.size());
    for (std::int64_t token = 0; token < tokens(); ++token) {
      reference.evaluate(token, rows_of(token));
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (!definition_.node(nodes[i]).is_per_token()) continue;
        const std::vector<double>& row = reference.of(nodes[i]).value;
        results[i].insert(results[i].end(), row.begin(), row.end());
      }
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (results[i].empty()) results[i] = reference.estimate_sum(nodes[i]).value;
    }
    return results;
  }

  // The sum of all outputs times their upstream gradients: what backward differentiates.
  double loss() const {
    const auto outputs = results(Direction::forward);
    double sum = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<float>& upstream = elements[definition_.inputs.size() + i];
      for (std::size_t j = 0; j < outputs[i].size(); ++j) sum += outputs[i][j] * upstream[j];
    }
    return sum;
  }

  std::vector<std::vector<float>> elements;  // by number in the graph

 private:
  std::vector<std::span<const float>> rows_of(std::int64_t token) const {
    std::vector<std::span<const float>> rows;
    for (const std::vector<float>& all : elements) {
      const std::size_t columns = all.size() / static_cast<std::size_t>(tokens());
      const auto begin = static_cast<std::size_t>(token) * columns;
      rows.push_back(std::span(all).subspan(std::min(begin, all.size() - columns), columns));
    }
    return rows;
  }

  const Definition definition_;
};

}  // namespace kernbench::test
