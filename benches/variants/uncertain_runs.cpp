#include "benches/variants/uncertain_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "benches/bench/cell.h"
#include "benches/variants/latin_hypercube.h"
#include "benches/variants/row_columns.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::variants {

namespace {

// Whole numbers are equally likely, the ends too.
double value_at(const Range& range, double place) {
  if (!range.is_whole) return range.low + (range.high - range.low) * place;
  const double count = range.high - range.low + 1;
  return std::min(range.high, range.low + std::floor(count * place));
}

std::vector<Choice> choices_of_run(const Samples& samples, std::size_t run) {
  std::vector<Choice> choices;
  for (std::size_t i = 0; i < samples.ranges.size(); ++i) {
    choices.push_back(samples.ranges[i].at(samples.runs[run][i]));
  }
  return choices;
}

std::string joined_choices(std::span<const Choice> choices) {
  std::string text;
  for (const Choice& choice : choices) {
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", choice.key->name, choice.value);
  }
  return text;
}

std::vector<Variant> variants_of_run(const VariantMaker& maker, const Samples& samples,
                                     std::size_t run) {
  const std::vector<Choice> choices = choices_of_run(samples, run);
  const std::string values = joined_choices(choices);
  try {
    std::vector<Variant> variants = maker.all(choices);
    for (Variant& variant : variants) {
      variant.name +=
          fmt::format("{}run {}: {}", variant.name.empty() ? "" : ", ", run + 1, values);
      variant.varied.push_back({std::string(kRun), fmt::to_string(run + 1)});
      for (const Choice& choice : choices)
        variant.varied.push_back({choice.key->name, choice.value});
      variant.is_recorded = false;
    }
    return variants;
  } catch (const UsageError& error) {
    throw UsageError("KB-U012", "--uncertain: run {}, with {}: {}", run + 1, values, error.what());
  }
}

// The value that a file has; a file that varies has none that holds for all.
std::vector<Variant> variants_as_they_are(const VariantMaker& maker, const Samples& samples) {
  std::vector<Variant> variants = maker.all();
  for (Variant& variant : variants) {
    const bool is_of_one_file =
        std::ranges::find(variant.varied, "topology", &VariedCell::key) == variant.varied.end();
    variant.name += variant.name.empty() ? "as it is" : ", as it is";
    variant.varied.push_back({std::string(kRun), "0"});
    for (const Range& range : samples.ranges) {
      if (range.key->value.empty() || !is_of_one_file) continue;
      variant.varied.push_back({range.key->name, range.key->value});
    }
    variant.is_recorded = &variant == variants.data();
  }
  return variants;
}

// The row without the cells that tell its run.
Row without_run(const Row& row, const Samples& samples) {
  Row result;
  for (const auto& [column, cell] : row.cells()) {
    const bool is_of_range = std::ranges::any_of(
        samples.ranges, [&](const Range& range) { return range.key->name == column; });
    if (column != kRun && !is_of_range) result.set_cell(column, cell);
  }
  return result;
}

// The rows that have a number in `column`, by run: the first is the run as it is.
std::vector<std::vector<Row>> rows_by_run(std::span<const Row> rows, const Samples& samples,
                                          const std::string& column) {
  std::vector<std::vector<Row>> runs(samples.runs.size() + 1);
  for (const Row& row : rows) {
    const auto run = number_in_row(row, std::string(kRun));
    if (!run || !number_in_row(row, column)) continue;
    runs.at(static_cast<std::size_t>(*run)).push_back(without_run(row, samples));
  }
  return runs;
}

// The columns that tell rows apart in all runs that have as many as the fullest one.
RowColumns columns_of_full_runs(std::span<const std::vector<Row>> runs, std::size_t row_count) {
  std::vector<std::vector<Row>> full;
  for (const std::vector<Row>& run : runs) {
    if (run.size() == row_count) full.push_back(run);
  }
  return common_columns(full);
}

Row known_cells(const Row& row, const RowColumns& columns) {
  Row known;
  for (const auto& [column, cell] : row.cells()) {
    const auto& matching = columns.matching;
    const bool is_null = std::holds_alternative<std::nullptr_t>(cell);
    const bool is_known = !is_null && std::ranges::find(matching, column) != matching.end();
    if (is_known) known.set_cell(column, cell);
  }
  return known;
}

// The ranks 0, 1, ... of values; equal ones have the mean of theirs.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  std::vector<double> ranks;
  for (const double value : values) {
    const auto [first, last] = std::ranges::equal_range(sorted, value);
    ranks.push_back(static_cast<double>((first - sorted.begin()) + (last - sorted.begin()) - 1) /
                    2);
  }
  return ranks;
}

// Pearson's correlation of two lists; 0 if one does not vary.
double correlate(std::span<const double> xs, std::span<const double> ys) {
  const auto mean = [](std::span<const double> values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  const double x_mean = mean(xs);
  const double y_mean = mean(ys);
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    xx += (xs[i] - x_mean) * (xs[i] - x_mean);
    yy += (ys[i] - y_mean) * (ys[i] - y_mean);
    xy += (xs[i] - x_mean) * (ys[i] - y_mean);
  }
  return xx == 0 || yy == 0 ? 0 : xy / std::sqrt(xx * yy);
}

}  // namespace

Samples draw_samples(std::vector<Range> ranges, std::size_t run_count, std::uint64_t seed) {
  Samples samples{std::move(ranges), std::vector<std::vector<double>>(run_count)};
  const auto points = latin_hypercube(run_count, samples.ranges.size(), seed);
  for (std::size_t run = 0; run < run_count; ++run) {
    for (std::size_t i = 0; i < samples.ranges.size(); ++i) {
      samples.runs[run].push_back(value_at(samples.ranges[i], points[run][i]));
    }
  }
  return samples;
}

void check_ends(const VariantMaker& maker, std::span<const Range> ranges) {
  for (const Range& range : ranges) {
    for (const bool is_low : {true, false}) {
      const Choice end = range.at(is_low ? range.low : range.high);
      try {
        maker.first({&end, 1});
      } catch (const UsageError& error) {
        throw UsageError("KB-U012", "--uncertain: the {} end {} of {}: {}", is_low ? "low" : "high",
                         end.value, range.key->name, error.what());
      }
    }
  }
}

std::vector<Variant> uncertain_variants(const VariantMaker& maker, const Samples& samples) {
  std::vector<Variant> variants = variants_as_they_are(maker, samples);
  for (std::size_t run = 0; run < samples.runs.size(); ++run) {
    for (Variant& variant : variants_of_run(maker, samples, run)) {
      variants.push_back(std::move(variant));
    }
  }
  return variants;
}

std::vector<double> Band::sorted() const {
  std::vector<double> known;
  for (const auto& time : times) {
    if (time) known.push_back(*time);
  }
  std::ranges::sort(known);
  return known;
}

double Band::low() const {
  return sorted().front();
}

double Band::high() const {
  return sorted().back();
}

double Band::median() const {
  const std::vector<double> known = sorted();
  return (known[(known.size() - 1) / 2] + known[known.size() / 2]) / 2;
}

std::vector<Band> make_bands(std::span<const Row> rows, const Samples& samples,
                             const std::string& column) {
  const std::vector<std::vector<Row>> runs = rows_by_run(rows, samples, column);
  const auto fullest = std::ranges::max_element(runs, {}, &std::vector<Row>::size);
  std::vector<Band> bands;
  if (fullest->empty()) return bands;
  RowColumns columns = columns_of_full_runs(runs, fullest->size());
  shorten_names(*fullest, columns);
  std::multimap<std::string, std::size_t> by_key;  // rows that nothing tells apart match in order
  for (const Row& row : *fullest) {
    by_key.emplace(matching_key(row, columns), bands.size());
    bands.push_back({.row = known_cells(row, columns),
                     .name = short_row_name(row, columns),
                     .times = std::vector<std::optional<double>>(samples.runs.size())});
  }
  for (std::size_t run = 0; run < runs.size(); ++run) {
    std::multimap<std::string, std::size_t> open = by_key;
    for (const Row& row : runs[run]) {
      const auto found = open.find(matching_key(row, columns));
      if (found == open.end()) continue;
      Band& band = bands[found->second];
      (run == 0 ? band.as_it_is : band.times[run - 1]) = number_in_row(row, column);
      open.erase(found);
    }
  }
  std::erase_if(bands, [](const Band& band) {
    return std::ranges::none_of(band.times, [](const auto& time) { return time.has_value(); });
  });
  return bands;
}

std::size_t count_failed(std::span<const Row> rows) {
  return static_cast<std::size_t>(std::ranges::count_if(rows, [](const Row& row) {
    const Cell* const error = row.find("error");
    return error != nullptr && std::holds_alternative<std::string>(*error);
  }));
}

std::optional<Dependence> strongest_dependence(const Band& band, const Samples& samples) {
  std::optional<Dependence> strongest;
  for (std::size_t range = 0; range < samples.ranges.size(); ++range) {
    std::vector<double> values;
    std::vector<double> times;
    for (std::size_t run = 0; run < samples.runs.size(); ++run) {
      if (!band.times[run]) continue;
      values.push_back(samples.runs[run][range]);
      times.push_back(*band.times[run]);
    }
    const double correlation = correlate(ranks_of(values), ranks_of(times));
    if (std::abs(correlation) > std::abs(strongest.value_or(Dependence{}).correlation)) {
      strongest = {range, correlation};
    }
  }
  return strongest;
}

}  // namespace kernbench::benches::variants
