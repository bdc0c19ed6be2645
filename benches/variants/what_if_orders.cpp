#include "benches/variants/what_if_orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "benches/bench/bench.h"
#include "benches/bench/bench_run.h"
#include "benches/bench/context_set.h"
#include "benches/bench/row_cells.h"
#include "benches/variants/reruns.h"
#include "benches/variants/variant_sweep.h"
#include "runtime/profiler/profile.h"
#include "sim_engine/core/cause_log.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::size_t kMostSlower = 6;
constexpr double kShown = 0.9995;  // a table shows less as 0.999

// Returns the variants that take longer than the run as it is, the slowest first.
std::vector<Slower> find_slower(const WhatIf& result) {
  std::vector<Slower> slower;
  for (const Gain& gain : result.gains) {
    const auto add = [&](std::string_view speed, double speed_up) {
      if (speed_up < kShown) slower.push_back({gain.resource, std::string(speed), speed_up});
    };
    add("x2", gain.x2);
    add("x4", gain.x4);
    add("infinite", gain.infinite);
  }
  std::ranges::stable_sort(slower, {}, &Slower::speed_up);
  if (slower.size() > kMostSlower) slower.resize(kMostSlower);
  return slower;
}

// The sum of the rows' times when simultaneous events fall in the order of that seed.
Row measure_time(PointContext& point, const BenchInfo& info, const Variant& variant, int seed,
                 const std::string& column) {
  ContextSet shuffled(point.contexts(), static_cast<std::uint64_t>(seed));
  PointContext context(point.bench(), shuffled);
  double time = 0;
  for (const Row& row : run_variant(context, info, variant)) {
    if (row.find(column) != nullptr) time += number_or_null(row, column).value_or(0);
  }
  return Row().set("variant", variant.name).set("time_ns", time);
}

using Path = runtime::CriticalPath;

// The critical path of the variant's longest system.
Path profile_path(PointContext& point, const BenchInfo& info, Variant variant) {
  ContextSet profiled(point.contexts(), Recording{.profile = true});
  PointContext context(point.bench(), profiled);
  variant.is_recorded = true;
  run_variant(context, info, variant);
  return runtime::make_profile(*profiled.longest(), runtime::ProfiledTime::timed).path;
}

// The cause that takes most more time on one path than on the other.
Row growth(const Path& before, const Path& after, const std::string& variant) {
  Time most{0};
  sim::Cause cause = sim::Cause::other;
  for (std::size_t i = 0; i < sim::kCauseCount; ++i) {
    const Time more = after.by_cause.at(i) - before.by_cause.at(i);
    if (more <= most) continue;
    most = more;
    cause = static_cast<sim::Cause>(i);
  }
  return Row()
      .set("grown", variant)
      .set("cause", std::string(name_of(cause)))
      .set("more_ns", to_ns(most));
}

Slower::Range find_range(std::span<const Row> rows, std::string_view variant) {
  std::vector<double> times;
  for (const Row& row : rows) {
    if (row.find("variant") != nullptr && text_in(row, "variant") == variant)
      times.push_back(number_in(row, "time_ns"));
  }
  const auto [least, most] = std::ranges::minmax(times);
  return {least, most};
}

}  // namespace

std::vector<Slower> slower_runs(Bench& bench, const BenchInfo& info,
                                std::span<const Variant> variants, const WhatIf& result) {
  std::vector<Slower> slower = find_slower(result);
  if (slower.empty()) return slower;
  Reruns reruns(bench.run(), {}, bench.run().request.team);
  Sweep sweep(reruns.bench(), "orders");
  const auto name_of = [](const Slower& one) {
    return fmt::format("{} {}", one.resource, one.speed);
  };
  const auto is_wanted = [&](const Variant& variant) {
    return &variant == variants.data() ||
           std::ranges::find(slower, variant.name, name_of) != slower.end();
  };
  for (const Variant& variant : variants) {
    if (!is_wanted(variant)) continue;
    sweep.add(variant.name, [&info, &variant, &variants](PointContext& point) {
      return growth(profile_path(point, info, variants.front()), profile_path(point, info, variant),
                    variant.name);
    });
    for (int seed = 1; seed <= kOtherOrders; ++seed) {
      sweep.add(fmt::format("{}, order {}", variant.name, seed),
                [&info, &variant, &result, seed](PointContext& point) {
                  return measure_time(point, info, variant, seed, result.column);
                });
    }
  }
  const std::vector<Row> rows = sweep.run();
  for (Slower& one : slower) {
    one.as_it_is = find_range(rows, variants.front().name);
    one.faster = find_range(rows, name_of(one));
    const auto grown = std::ranges::find_if(rows, [&](const Row& row) {
      return row.find("grown") != nullptr && text_in(row, "grown") == name_of(one);
    });
    one.cause = text_in(*grown, "cause");
    one.more_ns = number_in(*grown, "more_ns");
  }
  return slower;
}

}  // namespace kernbench::benches::variants
