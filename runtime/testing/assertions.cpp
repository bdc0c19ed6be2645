#include "runtime/testing/assertions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <functional>

#include "runtime/simulation/call_site.h"
#include "runtime/testing/explore.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/roundoff.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::testing {

namespace {

using Elements = std::vector<float>;
using Bound = std::function<double(std::size_t element)>;

void check_count(const Tensor& actual, std::size_t expected) {
  if (actual.numel() == static_cast<std::int64_t>(expected)) return;
  throw DeviceError("KB-M015", "tensor '{}' {} has {} elements, {} are expected", actual.name(),
                    to_string(actual.shape()), actual.numel(), expected);
}

std::string index_text(std::int64_t position, const Shape& shape) {
  std::vector<std::int64_t> index(shape.rank());
  for (std::size_t i = shape.rank(); i-- > 0;) {
    index[i] = position % shape[i];
    position /= shape[i];
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

std::string describe_place(const std::source_location& location) {
  return runtime::call_site(location);
}

// The elements of a tensor that an assertion was given, which no schedule may change.
Elements read_for(std::string_view assertion, const Tensor& tensor,
                  const std::source_location& location) {
  Elements elements = tensor.to_vector();
  observe(tensor, fmt::format("{} at {}", assertion, describe_place(location)), elements);
  return elements;
}

bool are_nan(double actual, double expected) {
  return std::isnan(actual) && std::isnan(expected);
}

// Reports mismatches as torch.testing.assert_close does.
void compare(const Tensor& tensor, const Elements& actual, const std::vector<double>& expected,
             const Bound& bound, bool equal_nan, std::string_view what,
             const std::source_location& location) {
  std::size_t mismatched = 0;
  std::size_t worst = 0;
  double worst_excess = -1;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;  // also equal infinities
    if (equal_nan && are_nan(actual[i], expected[i])) continue;
    const double difference = std::abs(static_cast<double>(actual[i]) - expected[i]);
    if (std::isfinite(difference) && difference <= bound(i)) continue;
    ++mismatched;
    const double excess = std::isfinite(difference) ? difference - bound(i) : HUGE_VAL;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (mismatched == 0) return;
  throw NumericsError(
      "KB-N030",
      "Tensor-likes are not {}! at {}\n  Mismatched elements: {} / {} ({:.1f}%)\n  tensor '{}' {} "
      "{}\n  worst at index {}: {} is not {}, off by {:.3g} (up to {:.3g} allowed){}",
      what, describe_place(location), mismatched, actual.size(),
      100.0 * static_cast<double>(mismatched) / static_cast<double>(actual.size()), tensor.name(),
      to_string(tensor.shape()), name_of(tensor.dtype()),
      index_text(static_cast<std::int64_t>(worst), tensor.shape()), actual[worst], expected[worst],
      std::abs(static_cast<double>(actual[worst]) - expected[worst]), bound(worst),
      are_nan(actual[worst], expected[worst])
          ? "\n  NaN is close to nothing, unless equal_nan is asked for"
          : "");
}

}  // namespace

Tolerance default_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {.relative = 1e-3, .absolute = 1e-5};
    case DType::bf16:
      return {.relative = 1.6e-2, .absolute = 1e-5};
    case DType::f32:
      return {.relative = 1.3e-6, .absolute = 1e-5};
    default:
      return {};  // exact
  }
}

Topology ring_of(int ranks) {
  if (ranks < 1) throw CollectiveError("KB-R010", "World: of {} ranks", ranks);
  return in_ring(Topology::load("tiny"), ranks);
}

void assert_close(const Tensor& actual, std::span<const float> expected,
                  const std::optional<Tolerance>& given, std::source_location location) {
  check_count(actual, expected.size());
  const Tolerance tolerance = given.value_or(default_tolerance(actual.dtype()));
  compare(
      actual, read_for("assert_close", actual, location), {expected.begin(), expected.end()},
      [&](std::size_t i) {
        return tolerance.absolute + tolerance.relative * std::abs(static_cast<double>(expected[i]));
      },
      tolerance.equal_nan, "close", location);
}

void assert_equal(const Tensor& actual, std::span<const float> expected,
                  std::source_location location) {
  check_count(actual, expected.size());
  const Elements elements = read_for("assert_equal", actual, location);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (are_nan(elements[i], expected[i]) ||
        std::bit_cast<std::uint32_t>(elements[i]) == std::bit_cast<std::uint32_t>(expected[i])) {
      continue;
    }
    throw NumericsError(
        "KB-N030",
        "Tensor-likes are not equal! at {}\n  tensor '{}' {} {}\n  first at index {}: {} is not {}",
        describe_place(location), actual.name(), to_string(actual.shape()), name_of(actual.dtype()),
        index_text(static_cast<std::int64_t>(i), actual.shape()), elements[i], expected[i]);
  }
}

void assert_is_sum(const Tensor& actual, const std::vector<Elements>& contributions,
                   std::source_location location) {
  if (contributions.empty()) {
    throw UsageError("KB-U014", "assert_is_sum: no contributions; give one for each rank");
  }
  std::vector<double> sums(static_cast<std::size_t>(actual.numel()), 0.0);
  std::vector<double> magnitudes = sums;
  for (const Elements& part : contributions) {
    check_count(actual, part.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      sums[i] += part[i];
      magnitudes[i] += std::abs(static_cast<double>(part[i]));
    }
  }
  const double additions = static_cast<double>(contributions.size()) - 1;
  const double unit = unit_roundoff(actual.dtype());
  compare(
      actual, read_for("assert_is_sum", actual, location), sums,
      [&](std::size_t i) { return additions * unit * magnitudes[i]; }, true,
      "the sum of what was contributed", location);
}

void assert_equal_on_ranks(RuntimeContext& torch, const Tensor& x,
                           const distributed::ProcessGroup& group, std::source_location location) {
  std::vector<Elements> all;
  torch.distributed.all_gather_object(all, read_for("assert_equal_on_ranks", x, location), group,
                                      location);
  const std::vector<int> ranks = torch.distributed.get_process_group_ranks(group);
  for (std::size_t other = 1; other < all.size(); ++other) {
    if (all[other].size() != all.front().size()) {
      throw Error("KB-N020", ExitCode::values,
                  "tensor '{}' differs at {}: rank {} has {} elements, rank {} has {}", x.name(),
                  describe_place(location), ranks.front(), all.front().size(), ranks[other],
                  all[other].size());
    }
    for (std::size_t i = 0; i < all.front().size(); ++i) {
      const auto first = std::bit_cast<std::uint32_t>(all.front()[i]);
      const auto later = std::bit_cast<std::uint32_t>(all[other][i]);
      if (first == later) continue;
      throw Error(
          "KB-N020", ExitCode::values,
          "tensor '{}' differs at {}: rank {} vs {} at element {}: {} ({:#x}) vs {} ({:#x})",
          x.name(), describe_place(location), ranks.front(), ranks[other],
          index_text(static_cast<std::int64_t>(i), x.shape()), all.front()[i], first, all[other][i],
          later);
    }
  }
}

}  // namespace kernbench::testing
