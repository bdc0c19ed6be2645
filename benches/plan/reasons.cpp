#include "benches/plan/reasons.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

namespace kernbench::benches::plan {

namespace {

// "12.3 us more"; `same` where the digits that are shown do not tell a difference.
std::string more_or_less(double difference, double unit, std::string_view name,
                         std::string_view same = "as much") {
  const double shown = std::round(difference / unit * 10) / 10;
  if (shown == 0) return std::string(same);
  return fmt::format("{:.1f} {} {}", std::abs(shown), name, shown > 0 ? "more" : "less");
}

std::string more_or_less_time(double ns) {
  return more_or_less(ns, 1e3, "us");
}

std::string by_layers(const Plan& first, const Plan& second) {
  if (first.is_measured && second.is_measured) return "";
  return first.is_measured || second.is_measured ? " (one of the two by its layers)"
                                                 : " (both by their layers)";
}

// "12.3 us more than the first, 1.2 %"
std::string step_difference(const StepFigures& a, const StepFigures& b) {
  const std::string time = more_or_less(b.step_ns - a.step_ns, 1e3, "us", "");
  if (time.empty()) return "as long as the first";
  return fmt::format("{} than the first, {:.1f} %", time, 100 * (b.step_ns / a.step_ns - 1));
}

bool has_figures(const Plan& plan) {
  return plan.figures.step_ns > 0;
}

// "1 plan does not", "3 plans do not"
std::string count_that_do_not(std::ptrdiff_t count) {
  return count == 1 ? "1 plan does not" : fmt::format("{} plans do not", count);
}

}  // namespace

std::string show_bytes(double bytes) {
  return fmt::format("{:.1f} MiB", bytes / (1 << 20));
}

std::string compare_first_two(const Plan& first, const Plan& second) {
  const StepFigures& a = first.figures;
  const StepFigures& b = second.figures;
  std::string of_axes;
  if (first.input.tp != second.input.tp) {
    of_axes = fmt::format(" (dp: {}, tp: {})", more_or_less_time(b.dp_exposed_ns - a.dp_exposed_ns),
                          more_or_less_time(b.tp_exposed_ns - a.tp_exposed_ns));
  }
  std::string of_bubble;
  if (first.input.pp > 1 || second.input.pp > 1) {
    of_bubble = fmt::format("; its bubble, the mean of all ranks, has {}",
                            more_or_less_time(b.bubble_ns - a.bubble_ns));
  }
  return fmt::format(
      "the second, {}, takes {}{}: kernels {}, exposed communication {}{}, idle {}{}; its peak "
      "has {}",
      describe(second.input), step_difference(a, b), by_layers(first, second),
      more_or_less_time(b.computing_ns - a.computing_ns),
      more_or_less_time(b.exposed_ns - a.exposed_ns), of_axes,
      more_or_less_time(b.idle_ns - a.idle_ns), of_bubble,
      more_or_less(b.peak_bytes - a.peak_bytes, 1 << 20, "MiB"));
}

std::string describe_refused(std::span<const Plan> plans) {
  const auto count =
      std::ranges::count_if(plans, [](const Plan& plan) { return !plan.refused.empty(); });
  if (count == 0) {
    const bool are_all = std::ranges::all_of(plans, [](const Plan& plan) { return plan.fits(); });
    return are_all ? "all plans fit" : "all plans that are timed fit";
  }
  std::string text = count_that_do_not(count) + " fit";
  const Plan* fastest = nullptr;
  for (const Plan& plan : plans) {
    if (plan.refused.empty() || !has_figures(plan)) continue;
    if (fastest == nullptr || plan.figures.step_ns < fastest->figures.step_ns) fastest = &plan;
  }
  if (fastest == nullptr || fastest->figures.step_ns >= plans.front().figures.step_ns) {
    return text + "; " + (fastest == nullptr ? "none has figures" : "none would be faster");
  }
  return text + fmt::format("; {} would take {:.1f} us: {}", describe(fastest->input),
                            fastest->figures.step_ns / 1e3, fastest->refused);
}

std::string describe_needless(std::span<const Plan> plans) {
  std::vector<std::string> parts;
  std::ptrdiff_t all = 0;
  for (const std::string_view reason : {kKeepsMore, kCutsLess, kIsSlower}) {
    const auto count = std::ranges::count(plans, reason, &Plan::needless);
    if (count > 0) parts.push_back(fmt::format("{}: {}", count, reason));
    all += count;
  }
  if (all == 0) return "";
  return fmt::format("{} have to be timed ({})", count_that_do_not(all), fmt::join(parts, "; "));
}

std::string describe_deviation(std::span<const Plan> plans) {
  double least = std::numeric_limits<double>::infinity();
  double most = -least;
  for (const Plan& plan : plans) {
    if (!plan.is_measured || plan.by_layers.step_ns == 0) continue;
    const double percent = 100 * (plan.figures.step_ns / plan.by_layers.step_ns - 1);
    least = std::min(least, percent);
    most = std::max(most, percent);
  }
  if (least > most) return "";
  constexpr double kLeast = 0.05;
  if (least > -kLeast && most < kLeast) {
    return "measured with all layers, steps take what they take by layers";
  }
  return fmt::format(
      "measured with all layers, steps take {:+.1f} to {:+.1f} % more than by layers", least, most);
}

}  // namespace kernbench::benches::plan
