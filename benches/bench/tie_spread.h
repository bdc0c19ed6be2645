// Measures how far times vary with the order of simultaneous events.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/row.h"

namespace kernbench::benches {

// The columns of rows that were simulated in several orders: how far their times vary, and the one
// that varies most.
inline constexpr std::string_view kTieSpread = "tie_spread";
inline constexpr std::string_view kTieColumn = "tie_column";

// Measures by how much a row's times (its columns `..._ns` except waits) depend on the order of
// simultaneous events.
class TieSpread {
 public:
  // The row in the usual order.
  explicit TieSpread(const Row& row);
  // The same row in another order.
  void add(const Row& row);

  // Sets the largest of (most - least) / least over all orders, 0 if all give the same, and the
  // column of that time.  Times that are 0 in one of them, such as what is hidden, have no such
  // ratio and are left out.
  void write(Row& row) const;

 private:
  struct Range {
    std::string column;
    double least = 0;
    double most = 0;
  };
  std::vector<Range> times_;
};

// The points whose times vary.
class TieSummary {
 public:
  void add(const Row& row, std::string_view point);
  // "latency in 2 more orders of simultaneous events: other times at 3 of 9 points, ..."
  std::string text(std::string_view name, int orders) const;

 private:
  int points_ = 0;
  int varying_ = 0;
  double largest_ = 0;
  std::string where_;
};

}  // namespace kernbench::benches
