// Runs variants of a bench, each as a point of a sweep.

#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/variants/variants.h"

namespace kernbench::benches::variants {

// Runs one variant as a point of a sweep and returns its rows, which begin with the cells of what
// varies.  It prints and writes nothing.
std::vector<Row> run_variant(PointContext& point, const BenchInfo& info, const Variant& variant);

struct VariantSweep {
  // Is called with the first variant's rows as soon as it has run, and may throw: what is wrong
  // with a column is said before the others run.
  std::function<void(std::span<const Row>)> check_first = {};
  // A variant that is refused, or fails, has a row with its cells and `error`, and the run ends
  // with exit code 1; unless all fail: then the first one's error is thrown.
  bool goes_on = false;
  // Adds simulated_ns, the time that all of a variant's systems took, to its first row.
  bool adds_simulated = false;
};

// Returns the rows of all variants, which it adds to the bench's report.  Names of
// variants must differ.
std::vector<Row> run_variants(Bench& bench, std::string sweep_name, const BenchInfo& info,
                              std::span<const Variant> variants, const VariantSweep& options = {});

// The rows of two variants, without the cells of what varies that all rows of the two have.
struct RowsOfTwo {
  std::vector<Row> first;
  std::vector<Row> second;
};
RowsOfTwo split_rows(std::span<const Row> rows, const Variant& first);

// The rows as a table at most 120 columns wide: cells that are the same in all rows stand before
// it, and columns that have no room are left out.
std::string to_narrow_table(std::span<const Row> rows);
// All columns, or those of the narrow table where they are too wide.
std::string to_fitting_table(std::span<const Row> rows);

}  // namespace kernbench::benches::variants
