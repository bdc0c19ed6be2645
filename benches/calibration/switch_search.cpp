#include "benches/calibration/switch_search.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim_engine/base/error.h"

namespace kernbench::benches::calibration {

namespace {

constexpr double kMostIntegers = 64;
constexpr int kSteps = 32;  // of larger ranges of integers

bool is_of_sizes(const Parameter& parameter) {
  const std::string& name = parameter.range.key->name;
  return name.ends_with(".up_to") || name.ends_with(".above");
}

// In the unit of the parameter's range.
std::set<double> list_row_sizes(const Calibration& calibration, const Parameter& parameter) {
  const double unit = 1 / *parameter.range.find_value("1 B");
  std::set<double> sizes;
  for (const CalibratedRow& row : calibration.rows) {
    sizes.insert(static_cast<double>(row.published.size) / unit);
  }
  return sizes;
}

std::set<double> list_steps(const variants::Range& range) {
  std::set<double> values;
  if (range.high - range.low <= kMostIntegers) {
    for (double value = range.low; value <= range.high; ++value) values.insert(value);
    return values;
  }
  const double least = std::max(1.0, range.low);
  for (int i = 0; i <= kSteps; ++i) {
    values.insert(std::round(least * std::pow(range.high / least, 1.0 * i / kSteps)));
  }
  return values;
}

// A row whose times at two candidates differ, with candidates between that are yet to be tried.
struct Gap {
  std::size_t row;
  std::size_t low;
  std::size_t high;
};

class Search {
 public:
  Search(RowTimes& times, std::size_t parameter, const Texts& at, SwitchSearch& found)
      : times_(times), parameter_(parameter), at_(at), found_(found) {}

  void run(std::size_t row_count) {
    const std::size_t last = found_.texts.size() - 1;
    found_.times.assign(found_.texts.size(), std::vector<Time>(row_count));
    std::vector<Gap> ends;
    for (std::size_t row = 0; row < row_count; ++row) {
      ends.push_back({row, 0, 0});
      ends.push_back({row, last, last});
    }
    simulate(ends);
    std::vector<Gap> gaps;
    for (std::size_t row = 0; row < row_count; ++row) split(row, 0, last, gaps);
    while (!gaps.empty()) {
      simulate(gaps);
      std::vector<Gap> next;
      for (const Gap& gap : gaps) {
        split(gap.row, gap.low, middle(gap), next);
        split(gap.row, middle(gap), gap.high, next);
      }
      gaps = std::move(next);
    }
  }

 private:
  static std::size_t middle(const Gap& gap) { return (gap.low + gap.high) / 2; }

  // Simulates the candidates in the middle of the gaps.
  void simulate(const std::vector<Gap>& gaps) {
    std::vector<RowTimes::Wanted> wanted;
    for (const Gap& gap : gaps) {
      Texts texts = at_;
      texts[parameter_] = found_.texts[middle(gap)];
      wanted.push_back({gap.row, std::move(texts)});
    }
    const std::vector<Time> times = times_.of(wanted);
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      found_.times[middle(gaps[i])][gaps[i].row] = times[i];
    }
  }

  void split(std::size_t row, std::size_t low, std::size_t high, std::vector<Gap>& gaps) {
    const Time time = found_.times[low][row];
    if (time != found_.times[high][row]) {
      if (high - low > 1) gaps.push_back({row, low, high});
      return;
    }
    for (std::size_t i = low; i < high; ++i) found_.times[i][row] = time;
  }

  RowTimes& times_;
  const std::size_t parameter_;
  const Texts& at_;
  SwitchSearch& found_;
};

// Returns why the machines with these values cannot be simulated; empty if they can.
std::string find_refusal(const Calibration& calibration, const std::vector<Parameter>& parameters,
                         const Texts& texts) {
  try {
    for (const Machine& machine : calibration.machines) make_variant(machine, parameters, texts);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

bool SwitchSearch::moves(std::size_t row) const {
  return std::ranges::any_of(
      times, [&](const std::vector<Time>& all) { return all[row] != times.front()[row]; });
}

std::vector<double> list_candidates(const Calibration& calibration, const Parameter& parameter) {
  const variants::Range& range = parameter.range;
  std::set<double> values;
  if (is_of_sizes(parameter)) {
    values = {range.low, range.high};
    const std::set<double> sizes = list_row_sizes(calibration, parameter);
    for (auto here = sizes.begin(), next = std::next(here); next != sizes.end(); ++here, ++next) {
      const double between = std::round(std::sqrt(*here * *next));
      if (between > range.low && between < range.high) values.insert(between);
    }
  } else {
    values = list_steps(range);
  }
  values.insert(parameter.start);
  return {values.begin(), values.end()};
}

SwitchSearch search_switch(RowTimes& times, const Calibration& calibration,
                           const std::vector<Parameter>& parameters, std::size_t parameter,
                           const Texts& at) {
  SwitchSearch found;
  for (const double value : list_candidates(calibration, parameters[parameter])) {
    Texts texts = at;
    texts[parameter] = parameters[parameter].text_at(value);
    std::string refusal = find_refusal(calibration, parameters, texts);
    if (refusal.empty()) {
      found.texts.push_back(texts[parameter]);
    } else {
      found.refusals.push_back(texts[parameter] + ": " + std::move(refusal));
    }
  }
  const auto again = std::ranges::unique(found.texts);
  found.texts.erase(again.begin(), again.end());
  Search(times, parameter, at, found).run(calibration.rows.size());
  return found;
}

}  // namespace kernbench::benches::calibration
