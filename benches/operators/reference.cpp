#include "benches/operators/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim_engine/base/check.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::benches::operators {

namespace {

constexpr double kUnitOfF32 = 0x1p-24;

// The rounding of a type.  Results in f16 and bf16 are rounded to f32 first.
struct Rounding {
  double unit = kUnitOfF32;
  double tiny = 0x1p-150;

  double operator()(double value, double bound) const {
    return bound + unit * (std::abs(value) + bound) + tiny;
  }
};

Rounding find_rounding(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {0x1p-11 + kUnitOfF32, 0x1p-25};
    case DType::bf16:
      return {0x1p-8 + kUnitOfF32, 0x1p-134};
    default:
      return {};
  }
}

// The error of a constant, which a kernel first rounds to its type.
double error_of_number(const Node& node) {
  return std::abs(node.number - sim::round_to(node.dtype, node.number));
}

struct Element {
  double value = 0;
  double bound = 0;
};

Element rounded(const Element& x, const Rounding& rounding) {
  return {x.value, rounding(x.value, x.bound)};
}

Element product(const Element& a, const Element& b) {
  return {a.value * b.value,
          std::abs(a.value) * b.bound + std::abs(b.value) * a.bound + a.bound * b.bound};
}

Element power(const Element& x, double exponent, const Rounding& rounding) {
  const Element square = rounded(product(x, x), rounding);
  return exponent == 2 ? square : rounded(product(square, x), rounding);
}

Element compute_rsqrt(const Element& x) {
  const double least = x.value - x.bound;
  const double slope =
      least > 0 ? 0.5 / (least * std::sqrt(least)) : std::numeric_limits<double>::infinity();
  return {1 / std::sqrt(x.value), x.bound * slope};
}

Element compute_sigmoid(const Element& x) {
  return {1 / (1 + std::exp(-x.value)), x.bound / 4};
}

// Applies `function` to each element.
template <class Function>
void map(const Estimate& x, Estimate& result, const Function& function) {
  for (std::size_t i = 0; i < result.value.size(); ++i) {
    const Element element = function(Element{x.value[i], x.bound[i]});
    result.value[i] = element.value;
    result.bound[i] = element.bound;
  }
}

// Applies `function` to pairs of elements; either operand may have one element for all.
template <class Function>
void map(const Estimate& a, const Estimate& b, Estimate& result, const Function& function) {
  const std::size_t step_a = a.value.size() == result.value.size() ? 1 : 0;
  const std::size_t step_b = b.value.size() == result.value.size() ? 1 : 0;
  for (std::size_t i = 0; i < result.value.size(); ++i) {
    const Element element = function(Element{a.value[i * step_a], a.bound[i * step_a]},
                                     Element{b.value[i * step_b], b.bound[i * step_b]});
    result.value[i] = element.value;
    result.bound[i] = element.bound;
  }
}

}  // namespace

Reference::Reference(const Definition& definition, std::int64_t tokens_on_a_pe)
    : definition_(definition),
      tokens_on_a_pe_(tokens_on_a_pe),
      estimates_(static_cast<std::size_t>(definition.graph->size())),
      magnitudes_(estimates_.size()) {
  std::vector<NodeId> results = definition.results(Direction::forward);
  for (const NodeId id : definition.results(Direction::backward)) results.push_back(id);
  const std::vector<bool> is_needed = reachable(*definition.graph, results, {});
  for (NodeId id = 0; id < definition.graph->size(); ++id) {
    if (!is_needed[static_cast<std::size_t>(id)]) continue;
    const Node& node = definition.node(id);
    const bool is_of_experts = node.extents.rows == Rows::experts;
    const std::int64_t rows = is_of_experts ? expert_count(definition.inputs) : 1;
    const auto count = static_cast<std::size_t>(rows * node.extents.columns);
    estimates_[static_cast<std::size_t>(id)] = {std::vector(count, 0.0), std::vector(count, 0.0)};
    if (node.is_sum_of_tokens()) magnitudes_[static_cast<std::size_t>(id)].resize(count, 0.0);
    auto& list = node.op == Op::input      ? inputs_
                 : node.is_sum_of_tokens() ? sums_
                 : node.is_per_token()     ? for_each_token_
                                           : once_for_all_;
    list.push_back(id);
  }
}

void Reference::set_parameter(int input, std::span<const float> elements) {
  const std::int64_t columns = definition_.inputs[static_cast<std::size_t>(input)].extents.columns;
  for (const NodeId id : inputs_) {
    const Node& node = definition_.node(id);
    if (node.input != input) continue;
    std::vector<double>& value = estimates_[static_cast<std::size_t>(id)].value;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const auto at = node.column < 0 ? i
                                      : i * static_cast<std::size_t>(columns) +
                                            static_cast<std::size_t>(node.column);
      value[i] = elements[at];
    }
  }
}

void Reference::evaluate(std::int64_t token, std::span<const std::span<const float>> rows) {
  if (!std::exchange(is_ready_, true)) {
    for (const NodeId id : once_for_all_) compute(id, token);
  }
  for (const NodeId id : inputs_) {
    const Node& node = definition_.node(id);
    if (!node.is_per_token()) continue;
    const std::span<const float> row = rows[static_cast<std::size_t>(node.input)];
    std::ranges::copy(row, estimates_[static_cast<std::size_t>(id)].value.begin());
  }
  for (const NodeId id : for_each_token_) compute(id, token);
  for (const NodeId id : sums_) add_to_sum(id, token);
}

void Reference::compute(NodeId id, std::int64_t token) {
  const Node& node = definition_.node(id);
  Estimate& result = estimates_[static_cast<std::size_t>(id)];
  const Rounding rounding = find_rounding(node.dtype);
  const Estimate& x = operand(node, 0);
  const auto map_one = [&](const auto& function) {
    map(x, result, [&](const Element& e) { return rounded(function(e), rounding); });
  };
  const auto map_two = [&](const auto& function) {
    map(x, operand(node, 1), result,
        [&](const Element& a, const Element& b) { return rounded(function(a, b), rounding); });
  };
  switch (node.op) {
    case Op::cast:
      if (node.dtype == DType::f32) return map(x, result, [](const Element& e) { return e; });
      return map_one([](const Element& e) { return e; });
    case Op::power:
      return map(x, result, [&](const Element& e) { return power(e, node.number, rounding); });
    case Op::rsqrt:
      map_one(compute_rsqrt);
      return find_unbounded(id);
    case Op::sigmoid:
      return map_one(compute_sigmoid);
    case Op::scale:
      return map_one([&, off = error_of_number(node)](const Element& e) {
        return product(e, {node.number, off});
      });
    case Op::shift:
      return map_one([&, off = error_of_number(node)](const Element& e) {
        return Element{e.value + node.number, e.bound + off};
      });
    case Op::add:
      return map_two([](const Element& a, const Element& b) {
        return Element{a.value + b.value, a.bound + b.bound};
      });
    case Op::subtract:
      return map_two([](const Element& a, const Element& b) {
        return Element{a.value - b.value, a.bound + b.bound};
      });
    case Op::multiply:
      return map_two(product);
    case Op::row_sum:
      return compute_row_sum(node, result);
    case Op::per_token:
      return pick_expert(node, token, result);
    case Op::input:
    case Op::token_sum:
    case Op::expert_sums:
      break;
  }
  KB_CHECK(false, "{} is not computed for a token", name_of(node.op));
}

void Reference::find_unbounded(NodeId id) {
  const auto is_finite = [](double bound) { return std::isfinite(bound); };
  if (!unbounded_ && !std::ranges::all_of(of(id).bound, is_finite)) unbounded_ = id;
}

void Reference::compute_row_sum(const Node& node, Estimate& result) const {
  const Estimate& x = operand(node, 0);
  Element sum;
  double magnitude = 0;
  for (std::size_t i = 0; i < x.value.size(); ++i) {
    sum.value += x.value[i];
    sum.bound += x.bound[i];
    magnitude += std::abs(x.value[i]) + x.bound[i];
  }
  const auto partial_sums = static_cast<double>((x.value.size() + 15) / 16);
  sum.bound += (partial_sums + 3) * kUnitOfF32 * magnitude;
  const Rounding rounding = find_rounding(node.dtype);
  sum = rounded(sum, rounding);
  if (node.number != 1) {
    sum = rounded(product(sum, {node.number, error_of_number(node)}), rounding);
  }
  result.value.front() = sum.value;
  result.bound.front() = sum.bound;
}

// The expert of a token; nullopt if it has none.
std::optional<std::size_t> Reference::find_expert(const Node& node, std::int64_t token) const {
  const std::vector<double>& offsets = operand(node, 1).value;
  const auto next = std::ranges::upper_bound(offsets, static_cast<double>(token));
  if (next == offsets.begin() || next == offsets.end()) return std::nullopt;
  return static_cast<std::size_t>(next - offsets.begin() - 1);
}

void Reference::pick_expert(const Node& node, std::int64_t token, Estimate& result) const {
  const auto expert = find_expert(node, token);
  const Estimate& all = operand(node, 0);
  result.value.front() = expert ? all.value[*expert] : 0;
  result.bound.front() = expert ? all.bound[*expert] : 0;
}

void Reference::add_to_sum(NodeId id, std::int64_t token) {
  const Node& node = definition_.node(id);
  const Estimate& x = operand(node, 0);
  Estimate& sum = estimates_[static_cast<std::size_t>(id)];
  std::vector<double>& magnitude = magnitudes_[static_cast<std::size_t>(id)];
  std::size_t target = 0;
  if (node.op == Op::expert_sums) {
    const auto expert = find_expert(node, token);
    if (!expert) return;
    target = *expert;
  }
  for (std::size_t i = 0; i < x.value.size(); ++i, ++target) {
    sum.value[target] += x.value[i];
    sum.bound[target] += x.bound[i];
    magnitude[target] += std::abs(x.value[i]) + x.bound[i];
  }
}

Estimate Reference::estimate_sum(NodeId id) const {
  Estimate sum = of(id);
  const std::vector<double>& magnitude = magnitudes_[static_cast<std::size_t>(id)];
  const double additions = static_cast<double>(tokens_on_a_pe_) + 4;
  for (std::size_t i = 0; i < sum.bound.size(); ++i) {
    sum.bound[i] += additions * kUnitOfF32 * magnitude[i];
  }
  return sum;
}

}  // namespace kernbench::benches::operators
