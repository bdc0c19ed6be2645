// Answers what a faster resource of the machine would change: repeats the run with one resource, or
// all but one, at another speed (ADR-0200).

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/variants/variants.h"

namespace kernbench::benches::variants {

// A run that answers one question, of which only the first is recorded; its rows begin with the
// cells `resource` and `speed`.
//   resource                 speed
//   none                     x1          as it is
//   a key of the machine     x2, x4, infinite, or "all but it": all others are infinite
//   all                      infinite
// Resources are the bandwidths, clocks and times of the topology file, and the times of ccl.yaml's
// protocols, that are not infinite yet.
// x2 of a time is half of it.
std::vector<Variant> what_if_variants(const VariantMaker& maker);

std::string value_in_force(const VariantMaker& maker, std::string_view key);
// The key's value for twice the speed; nullopt if it is no resource, or infinite already.
std::optional<Choice> twice_as_fast(const VariantMaker& maker, std::string_view key);

// The speed-ups that faster versions of a resource give.  Times are sums over the rows.
struct Gain {
  std::string resource;
  std::string value;  // in force
  double x2 = 1;      // the run's speed-up if the resource is twice as fast
  double x4 = 1;
  double infinite = 1;
  double alone_ns = 0;  // the run's time if all others are infinite
};

// A run that takes longer although a resource is faster, and what both take in other orders of
// simultaneous events: each a range.
struct Slower {
  std::string resource;
  std::string speed;
  double speed_up = 1;  // below 1
  struct Range {
    double least_ns = 0;
    double most_ns = 0;
  };
  Range as_it_is = {};
  Range faster = {};
  // The cause whose time on the critical path of the longest system grows most: "queue".
  std::string cause = {};
  double more_ns = 0;

  // True if the order alone could make the difference.
  bool is_tie() const { return faster.least_ns <= as_it_is.most_ns; }
};

struct WhatIf {
  std::string column;       // the time, of the rows
  double time_ns = 0;       // as it is
  double ideal_ns = 0;      // with all resources infinite
  std::vector<Gain> gains;  // the largest first
  std::vector<Slower> slower = {};
};

// The column of a whole run's time, which --explain shows too.
inline constexpr std::string_view kSimulated = "simulated_ns";

// The time of the rows, "step_ns" or "time_ns"; or `wanted`, if it is not empty.  Throws UsageError
// KB-U017 if there is none.
std::string time_column(std::span<const Row> rows, const std::string& wanted);

WhatIf what_if(std::span<const Row> rows, const VariantMaker& maker, const std::string& column);

std::string to_table(const WhatIf& result);
// A row for each resource.
std::vector<Row> to_rows(const WhatIf& result);

}  // namespace kernbench::benches::variants
