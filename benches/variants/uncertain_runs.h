// Runs of a bench with values drawn from ranges, and how the time of each of its rows varies over
// them (ADR-0200).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/row.h"
#include "benches/variants/ranges.h"
#include "benches/variants/row_plot.h"
#include "benches/variants/variants.h"

namespace kernbench::benches::variants {

struct Samples {
  std::vector<Range> ranges;
  std::vector<std::vector<double>> runs;  // each has a value of every range, in its unit
};

// The values are those of a Latin hypercube (latin_hypercube.h).  REQUIRES: run_count > 0
Samples draw_samples(std::vector<Range> ranges, std::size_t run_count, std::uint64_t seed);

// Throws UsageError KB-U012, which names the end, if a file's reader refuses an end of a range.
void check_ends(const VariantMaker& maker, std::span<const Range> ranges);

// The cell that numbers the runs: 0 is the run as it is, with the files' own values.
inline constexpr std::string_view kRun = "run";

// The combinations of --set as they are, then all of them with the values of each run.  Only the
// first is recorded.  Behind the cells of --set rows have `run`, and the value of each range.
// Throws UsageError KB-U012, which names the run, if a file's reader refuses its values.
std::vector<Variant> uncertain_variants(const VariantMaker& maker, const Samples& samples);

// A row of the bench, and its times.
struct Band {
  Row row;                                        // the cells by which it is known
  std::string name;                               // "n_elem 4096"
  std::optional<double> as_it_is = {};            // without: that run lacks the row
  std::vector<std::optional<double>> times = {};  // by run, likewise

  // REQUIRES: a run has the row
  double low() const;
  double median() const;
  double high() const;

 private:
  std::vector<double> sorted() const;
};

// The rows with a number in `column`, of any run.  Rows of runs match if they are equal in their
// inputs (common_columns()).
std::vector<Band> make_bands(std::span<const Row> rows, const Samples& samples,
                             const std::string& column);

// The number of runs that have failed, which have a row with their error.
std::size_t count_failed(std::span<const Row> rows);

// How a row's times follow one range: Spearman's rank correlation, from -1 to 1.
struct Dependence {
  std::size_t range = 0;
  double correlation = 0;
};

// The range that the times follow most closely; nullopt if they are all equal.
std::optional<Dependence> strongest_dependence(const Band& band, const Samples& samples);

// Rows for machines: the band's cells, then metric, runs, low, median, high, as_it_is, depends_on,
// correlation; those of times end in "_ns".
std::vector<Row> to_rows(std::span<const Band> bands, const Samples& samples,
                         const std::string& column);
std::string to_table(std::span<const Band> bands, const Samples& samples,
                     const std::string& column);
// The bands over the column of whole numbers that differs most between rows, a curve for each of
// the first texts of the others; nullopt if there is no such column.
std::optional<RowPlot> plot_bands(std::span<const Band> bands, const std::string& column,
                                  std::string csv);

}  // namespace kernbench::benches::variants
