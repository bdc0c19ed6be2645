// Times of all providers of a case, as rows: for CSV, for the terminal, for figures.

#pragma once

#include <span>
#include <string>

#include "benches/bench/row.h"
#include "benches/figure/chart.h"
#include "benches/operators/measurement.h"

namespace kernbench::benches::operators {

// The row of one size and direction.  Columns: dim, batch_size, seq_len, "Naive (us)" and so on by
// provider, SpeedUp (of `fused`, or else the last, over the first); beside them "Roofline (us)",
// and for each provider its share of it, its kernels and the time in them.  A ratio of nothing is
// null.  REQUIRES: `measured` are those of `providers`
Row perf_row(const Definition& definition, std::span<const ProviderInfo> providers,
             Direction direction, std::span<const MeasuredBoth> measured);

std::string time_column(const ProviderInfo& provider);  // "Compiled Fused (us)"

// The time of the first provider over that of `provider`; NaN if nothing takes time.
double speed_up(const Row& row, std::span<const ProviderInfo> providers,
                const ProviderInfo& provider);
// The geometric mean of speed_up() over the rows.
double mean_speed_up(std::span<const Row> rows, std::span<const ProviderInfo> providers,
                     const ProviderInfo& provider);

// A table of the rows for people, with the mean speed-ups below.
std::string perf_table(std::string_view title, std::span<const Row> rows,
                       std::span<const ProviderInfo> providers);

// Speed-ups over the length, a curve for each provider but the first and each dim, from the file
// `csv` that has the rows.  REQUIRES: there is a row, and a second provider
figure::Chart speed_up_chart(std::string_view title, std::string_view subtitle, std::string csv,
                             std::span<const Row> rows, std::span<const ProviderInfo> providers);

}  // namespace kernbench::benches::operators
