#include "benches/numerics/sum_errors.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim_engine/base/roundoff.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::benches::numerics {

namespace {

using ccl::SumTrees;

// The values of all trees for one element.
class TreeValues {
 public:
  TreeValues(const SumTrees& trees, DType dtype)
      : trees_(trees), dtype_(dtype), values_(trees.size()) {}

  void compute(const Elements& given, std::size_t element) {
    // A tree has a higher number than those that it adds.
    for (std::size_t tree = 0; tree < values_.size(); ++tree) {
      const SumTrees::Node& node = trees_.node(static_cast<SumTrees::Tree>(tree));
      values_[tree] = node.is_summand()
                          ? given[static_cast<std::size_t>(node.summand.member)][element]
                          : sim::round_to(dtype_, of(node.left) + of(node.right));
    }
  }
  float of(SumTrees::Tree tree) const { return values_[static_cast<std::size_t>(tree)]; }

 private:
  const SumTrees& trees_;
  const DType dtype_;
  std::vector<float> values_;
};

// The exact sum of an element, and the sum of magnitudes.
struct Reference {
  ExactSum sum;
  double magnitude = 0;
};

Reference add_exactly(const Elements& given, std::size_t element) {
  Reference reference;
  for (const std::vector<float>& of_rank : given) {
    reference.sum.add(of_rank[element]);
    reference.magnitude += std::abs(of_rank[element]);
  }
  return reference;
}

// True if the trees of other elements would give this one other bits.
bool varies(const ccl::OrderOfSums& order, const TreeValues& values) {
  const float first = values.of(order.sums.front().front());
  return std::ranges::any_of(order.sums, [&](const std::vector<SumTrees::Tree>& by_member) {
    return values.of(by_member.front()) != first;
  });
}

// True if a rank has other bits than its tree gives, or than another rank.
bool is_wrong(const std::vector<SumTrees::Tree>& trees, const TreeValues& values,
              const Elements& sums, std::size_t element) {
  for (std::size_t rank = 0; rank < trees.size(); ++rank) {
    const float sum = sums[rank][element];
    if (values.of(trees[rank]) != sum || sum != sums.front()[element]) return true;
  }
  return false;
}

}  // namespace

// Knuth's exact addition: what the sum loses is a number of the type.
void ExactSum::add(double number) {
  const double sum = sum_ + number;
  const double added = sum - sum_;
  rest_ += (sum_ - (sum - added)) + (number - added);
  sum_ = sum;
}

double ExactSum::distance(double number) const {
  return std::abs(number - sum_ - rest_);
}

SumErrors find_errors(DType dtype, const Elements& given, const std::vector<float>& sums) {
  SumErrors errors;
  const double u = unit_roundoff(dtype);
  for (std::size_t element = 0; element < sums.size(); ++element) {
    const Reference reference = add_exactly(given, element);
    const double distance = reference.sum.distance(sums[element]);
    const double error = reference.magnitude > 0 ? distance / (u * reference.magnitude) : 0;
    const double exact = std::abs(reference.sum.value());
    const double ulps = exact > 0 ? distance / std::ldexp(2 * u, std::ilogb(exact)) : 0;
    errors.worst = std::max(errors.worst, error);
    errors.worst_ulp = std::max(errors.worst_ulp, ulps);
    errors.rms += error * error;
    errors.rms_ulp += ulps * ulps;
  }
  const auto all = static_cast<double>(sums.size());
  errors.rms = std::sqrt(errors.rms / all);
  errors.rms_ulp = std::sqrt(errors.rms_ulp / all);
  return errors;
}

SumErrors find_errors(const ccl::OrderOfSums& order, DType dtype, const Elements& given,
                      const Elements& sums) {
  SumErrors errors = find_errors(dtype, given, sums.front());
  const std::size_t count = given.front().size();
  TreeValues values(order.trees, dtype);
  for (std::size_t element = 0; element < count; ++element) {
    const std::vector<SumTrees::Tree>& trees = order.sums_of(static_cast<std::int64_t>(element));
    values.compute(given, element);
    errors.wrong += is_wrong(trees, values, sums, element) ? 1 : 0;
    errors.varying += varies(order, values) ? 1 : 0;
    errors.depth = std::max(errors.depth, order.trees.node(trees.front()).depth);
  }
  errors.varying /= static_cast<double>(count);
  return errors;
}

}  // namespace kernbench::benches::numerics
