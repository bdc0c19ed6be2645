// Runs variants of a bench, each as a point of a sweep.

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/sweep.h"
#include "benches/variants/variants.h"

namespace kernbench::benches::variants {

// Runs one variant as a point of a sweep and returns its rows, which begin with the cells of what
// varies.  It prints and writes nothing.
std::vector<Row> run_variant(PointContext& point, const BenchInfo& info, const Variant& variant);

// Returns the rows of all variants, which it adds to the bench's report.  Names of
// variants must differ.
std::vector<Row> run_variants(Bench& bench, std::string sweep_name, const BenchInfo& info,
                              std::span<const Variant> variants);

// The rows of two variants, without the cells of what varies that all rows of the two have.
struct RowsOfTwo {
  std::vector<Row> first;
  std::vector<Row> second;
};
RowsOfTwo split_rows(std::span<const Row> rows, const Variant& first);

// The rows as a table at most 120 columns wide: cells that are the same in all rows stand before
// it, and columns that have no room are left out.
std::string to_narrow_table(std::span<const Row> rows);

}  // namespace kernbench::benches::variants
