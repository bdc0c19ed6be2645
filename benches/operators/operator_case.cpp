#include "benches/operators/operator_case.h"

#include <algorithm>

#include "benches/operators/operator_cases.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::operators {

namespace {

Registry<std::unique_ptr<OperatorCase>>& registry() {
  static Registry<std::unique_ptr<OperatorCase>> cases("an", "operator case", "KB-U007");
  return cases;
}

}  // namespace

InputSpec token_input(std::string name, const Problem& problem) {
  return {
      .name = std::move(name), .extents = {Rows::tokens, problem.size.dim}, .dtype = problem.dtype};
}

InputSpec parameter(std::string name, const Problem& problem, std::int64_t columns, double mean,
                    double spread) {
  return {.name = std::move(name),
          .extents = {Rows::one, columns},
          .dtype = problem.dtype,
          .mean = mean,
          .spread = spread};
}

InputSpec expert_parameter(std::string name, const Problem& problem, std::int64_t experts,
                           std::int64_t columns, double mean, double spread) {
  InputSpec spec = parameter(std::move(name), problem, columns, mean, spread);
  spec.extents.rows = Rows::experts;
  spec.experts = experts;
  return spec;
}

InputSpec expert_offsets(std::string name, std::vector<float> offsets) {
  const auto count = static_cast<std::int64_t>(offsets.size());
  return {.name = std::move(name),
          .extents = {Rows::one, count},
          .dtype = DType::f32,
          .wants_gradient = false,
          .elements = std::move(offsets),
          .experts = count - 1};
}

std::int64_t expert_count(std::span<const InputSpec> specs) {
  std::int64_t most = 0;
  for (const InputSpec& spec : specs) most = std::max(most, spec.experts);
  return most;
}

int Inputs::find_index(std::string_view name) const {
  const auto found = std::ranges::find(specs_, name, &InputSpec::name);
  if (found != specs_.end()) return static_cast<int>(found - specs_.begin());
  std::vector<std::string_view> names;
  for (const InputSpec& spec : specs_) names.push_back(spec.name);
  throw Error("KB-O002", ExitCode::collective_misuse, "operator case: no input is named {}{}",
              in_quotes(name), suggestion(name, names));
}

Value Inputs::operator[](std::string_view name) const {
  const int index = find_index(name);
  const InputSpec& spec = specs_[static_cast<std::size_t>(index)];
  return graph_.input(index, spec.extents, spec.dtype);
}

Value Inputs::column(std::string_view name, int column) const {
  const int index = find_index(name);
  const InputSpec& spec = specs_[static_cast<std::size_t>(index)];
  if (spec.extents.rows == Rows::tokens || column < 0 || column >= spec.extents.columns) {
    throw Error("KB-O002", ExitCode::collective_misuse,
                "operator case: column {} of input {}; columns 0 to {} of a parameter are wanted",
                column, in_quotes(name), spec.extents.columns - 1);
  }
  return graph_.input(index, {spec.extents.rows, 1}, spec.dtype, column);
}

std::vector<ProblemSize> OperatorCase::checked_sizes() const {
  return {{2, 128, 4096}, {8, 4096, 1280}, {1, 32'768, 1280}};
}

std::vector<ProblemSize> OperatorCase::sizes() const {
  std::vector<ProblemSize> sizes;
  for (const std::int64_t dim : {2048, 4096}) {
    for (const std::int64_t batch : {1, 2, 4, 8}) {
      for (std::int64_t seq = 1024; seq <= 8192; seq *= 2) sizes.push_back({batch, seq, dim});
    }
  }
  return sizes;
}

bool register_operator_case(std::unique_ptr<OperatorCase> operator_case) {
  const std::string_view name = operator_case->name();
  return registry().add(name, std::move(operator_case));
}

const Registry<std::unique_ptr<OperatorCase>>& operator_cases() {
  return registry();
}

}  // namespace kernbench::benches::operators
