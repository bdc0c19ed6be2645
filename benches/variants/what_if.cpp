#include "benches/variants/what_if.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "benches/bench/cell.h"
#include "benches/bench/row_cells.h"
#include "benches/variants/what_if_orders.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/yaml_scalar.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::string_view kResource = "resource";
constexpr std::string_view kSpeed = "speed";
constexpr std::string_view kInfinite = "infinite";
constexpr std::string_view kAllButIt = "all but it";

struct Resource {
  const Key* key = nullptr;
  std::int64_t value = 0;  // in base units: B/s, Hz, ps
  std::string_view unit;   // that of the file
  Quantity quantity = {};
  bool is_time = false;
};

// The times of a protocol are the machine's too, though ccl.yaml has them.
bool is_of_machine(const Key& key) {
  return key.owner == KeyOwner::topology || key.name.starts_with("protocols.");
}

std::optional<Resource> parse_resource(const Key& key, const std::string& value) {
  if (!is_of_machine(key)) return std::nullopt;
  const auto read = [&](const Quantity& quantity, bool is_time) -> std::optional<Resource> {
    const ParsedScalar parsed = parse_quantity(value, quantity);
    const bool is_infinite = value == "unlimited" || parsed.value == 0;
    if (!parsed.code.empty() || is_infinite) return std::nullopt;
    const auto unit = std::ranges::find_if(quantity.units, [&](const QuantityUnit& one) {
      return value.ends_with(' ' + std::string(one.name));
    });
    if (unit == quantity.units.end()) return std::nullopt;
    return Resource{&key, parsed.value, unit->name, quantity, is_time};
  };
  if (key.type == "bandwidth") return read(bandwidth_quantity(), false);
  if (key.type == "frequency") return read(frequency_quantity(), false);
  if (key.type == "time") return read(time_quantity(), true);
  return std::nullopt;
}

std::string value_in(const Key& key, const Variant& variant) {
  const auto set = std::ranges::find(variant.fixed, key.name, &Assignment::key);
  return set == variant.fixed.end() ? key.value : set->value;
}

std::vector<Resource> list_resources(const VariantMaker& maker) {
  const Variant as_it_is = maker.first();
  std::vector<Resource> resources;
  for (const Key& key : maker.keys().all()) {
    if (const auto one = parse_resource(key, value_in(key, as_it_is))) resources.push_back(*one);
  }
  return resources;
}

Choice times_faster(const Resource& resource, std::int64_t factor) {
  const std::int64_t value =
      resource.is_time ? (resource.value + factor / 2) / factor : resource.value * factor;
  const bool is_too_much = !resource.is_time && resource.value > resource.quantity.max / factor;
  return {resource.key,
          is_too_much ? "unlimited" : format_quantity(value, resource.unit, resource.quantity)};
}

Choice infinite(const Resource& resource) {
  return {resource.key, resource.is_time ? "0 ps" : "unlimited"};
}

Variant named(Variant variant, std::string_view resource, std::string_view speed) {
  variant.name = fmt::format("{} {}", resource, speed);
  variant.varied = {{std::string(kResource), std::string(resource)},
                    {std::string(kSpeed), std::string(speed)}};
  return variant;
}

using Times = std::map<std::pair<std::string, std::string>, double>;

// The sum of the rows' times, by resource and speed.
Times sum_times(std::span<const Row> rows, const std::string& column) {
  Times times;
  for (const Row& row : rows) {
    if (row.find(column) == nullptr) continue;
    times[{text_in(row, kResource), text_in(row, kSpeed)}] +=
        number_or_null(row, column).value_or(0);
  }
  return times;
}

std::string with_factor(double factor) {
  return std::isinf(factor) ? "inf" : fmt::format("{:.3f}", factor);
}

std::string sentence(const Slower& slower) {
  const auto range = [](const Slower::Range& times) {
    return fmt::format("{:.3f} to {:.3f} us", times.least_ns / 1e3, times.most_ns / 1e3);
  };
  return fmt::format(
      "# {} {} is slower, {:.3f}: on its critical path {} takes {:.3f} us more; in {} further "
      "orders\n"
      "#   of simultaneous events, {} against {} as it is{}.\n",
      slower.resource, slower.speed, slower.speed_up, slower.cause, slower.more_ns / 1e3,
      kOtherOrders, range(slower.faster), range(slower.as_it_is),
      slower.is_tie() ? ": chance decides" : "");
}

}  // namespace

std::string value_in_force(const VariantMaker& maker, std::string_view key) {
  return value_in(maker.keys().find(key), maker.first());
}

std::optional<Choice> twice_as_fast(const VariantMaker& maker, std::string_view key) {
  const std::optional<Resource> resource =
      parse_resource(maker.keys().find(key), value_in_force(maker, key));
  return resource ? std::optional(times_faster(*resource, 2)) : std::nullopt;
}

std::vector<Variant> what_if_variants(const VariantMaker& maker) {
  const std::vector<Resource> resources = list_resources(maker);
  std::vector<Choice> all;
  for (const Resource& resource : resources) all.push_back(infinite(resource));
  std::vector<Variant> variants = {named(maker.first(), "none", "x1"),
                                   named(maker.first(all), "all", kInfinite)};
  for (std::size_t i = 0; i < resources.size(); ++i) {
    const std::string& name = resources[i].key->name;
    for (const int factor : {2, 4}) {
      const Choice faster = times_faster(resources[i], factor);
      variants.push_back(named(maker.first({&faster, 1}), name, fmt::format("x{}", factor)));
    }
    variants.push_back(named(maker.first({&all[i], 1}), name, kInfinite));
    std::vector<Choice> others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    variants.push_back(named(maker.first(others), name, kAllButIt));
  }
  for (Variant& variant : std::span(variants).subspan(1)) variant.is_recorded = false;
  return variants;
}

std::string time_column(std::span<const Row> rows, const std::string& wanted) {
  constexpr std::array<std::string_view, 7> kTimes = {
      "step_ns", "time_ns",     "out_of_place_time_ns", "in_place_time_ns",
      "crit_ns", "together_ns", "round_trip_ns"};
  std::vector<std::string_view> columns;
  for (const Row& row : rows) {
    for (const auto& [column, cell] : row.cells()) {
      const bool is_number =
          std::holds_alternative<std::int64_t>(cell) || std::holds_alternative<double>(cell);
      if (is_number && std::ranges::find(columns, column) == columns.end()) {
        columns.push_back(column);
      }
    }
  }
  const auto has = [&](std::string_view column) {
    return std::ranges::find(columns, column) != columns.end();
  };
  if (has(wanted)) return wanted;
  const auto* const usual = std::ranges::find_if(kTimes, has);
  if (wanted.empty() && usual != kTimes.end()) return std::string(*usual);
  throw UsageError("KB-U017", "--metric {}: the numbers of the rows are {}", in_quotes(wanted),
                   columns.empty() ? "none" : fmt::format("{}", fmt::join(columns, ", ")));
}

WhatIf what_if(std::span<const Row> rows, const VariantMaker& maker, const std::string& column) {
  Times times = sum_times(rows, column);
  const auto time = [&](const std::string& resource, std::string_view speed) {
    return times[{resource, std::string(speed)}];
  };
  WhatIf result{.column = column,
                .time_ns = time("none", "x1"),
                .ideal_ns = time("all", kInfinite),
                .gains = {}};
  const Variant as_it_is = maker.first();
  for (const Resource& resource : list_resources(maker)) {
    const std::string& name = resource.key->name;
    result.gains.push_back({.resource = name,
                            .value = value_in(*resource.key, as_it_is),
                            .x2 = result.time_ns / time(name, "x2"),
                            .x4 = result.time_ns / time(name, "x4"),
                            .infinite = result.time_ns / time(name, kInfinite),
                            .alone_ns = time(name, kAllButIt)});
  }
  std::ranges::stable_sort(result.gains, std::greater(),
                           [](const Gain& gain) { return std::pair(gain.infinite, gain.x2); });
  return result;
}

std::string to_table(const WhatIf& result) {
  const bool is_whole = result.column == kSimulated;
  std::string text = fmt::format(
      "#\n# {}, {}: {:.3f} us as it is; with every resource infinite {:.3f} us\n{}"
      "#\n# {:<30} {:>12} {:>9} {:>9} {:>9} {:>14}\n# {:<30} {:>12} {:>29} {:>14}\n",
      result.column, is_whole ? "of the whole run" : "summed over the rows", result.time_ns / 1e3,
      result.ideal_ns / 1e3,
      is_whole ? "" : "# (--metric simulated_ns: of the whole run, uploads included)\n", "resource",
      "now", "x2", "x4", kInfinite, "the only limit", "", "", "speed-up of the run", "(us)");
  for (const Gain& gain : result.gains) {
    text += fmt::format("  {:<30} {:>12} {:>9} {:>9} {:>9} {:>14.3f}\n", gain.resource, gain.value,
                        with_factor(gain.x2), with_factor(gain.x4), with_factor(gain.infinite),
                        gain.alone_ns / 1e3);
  }
  const auto best = std::ranges::max_element(result.gains, {}, &Gain::x2);
  if (best == result.gains.end()) return text;
  text += fmt::format("# Twice as fast, {} buys most: the run is {} times as fast.\n",
                      best->resource, with_factor(best->x2));
  for (const Slower& slower : result.slower) text += sentence(slower);
  return text;
}

std::vector<Row> to_rows(const WhatIf& result) {
  std::vector<Row> rows;
  for (const Gain& gain : result.gains) {
    rows.push_back(Row()
                       .set("resource", gain.resource)
                       .set("value", gain.value)
                       .set("x2", gain.x2)
                       .set("x4", gain.x4)
                       .set("infinite", gain.infinite)
                       .set("only_limit_ns", gain.alone_ns));
  }
  return rows;
}

}  // namespace kernbench::benches::variants
