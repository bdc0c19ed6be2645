#include "benches/variants/what_helps.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "benches/bench/bench.h"
#include "benches/bench/cell.h"
#include "benches/bench/row_cells.h"
#include "benches/variants/reruns.h"
#include "benches/variants/variant_sweep.h"
#include "benches/variants/what_if.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/core/cause_log.h"
#include "sim_engine/topology/sip_network.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::variants {

namespace {

using sim::Cause;
using sim::UnitClass;

constexpr std::size_t kMostReruns = 6;
constexpr std::size_t kMostSentences = 3;
constexpr int kLeastShare = 50;     // a fiftieth of the path
constexpr double kWorthIt = 1.005;  // what makes less of a difference is not told

// The section of a topology file that describes a link such as "sip3.link.east[1]".
std::string find_link_section(const Topology& topology, std::string_view place) {
  const sim::SipNetwork network(topology);
  for (int sip = 0; network.has_unlike_links() && sip < topology.system.sip_count; ++sip) {
    const std::string links = fmt::format("sip{}.link.", sip);
    if (!place.starts_with(links)) continue;
    const std::string_view name = place.substr(links.size());
    for (int number = 0; number < network.links_per_sip(); ++number) {
      const UnlikeLinks* const unlike = network.find_unlike({sip, number});
      const bool is_it = name.substr(0, name.find('[')) == network.name_of_link(number);
      if (is_it && unlike != nullptr) return "system.sip_links." + to_string(*unlike);
    }
  }
  for (int level = 1; level <= network.level_count(); ++level) {
    const std::string section = network.section_of(level);
    const bool is_it = place.ends_with(".to_" + section) || place.ends_with(".from_" + section);
    if (is_it) return fmt::format("system.{}.link", section);
  }
  return "system.sip_link";
}

// The section of a topology file that describes the links of a class, or this one of them.
std::string find_section(const Topology& topology, UnitClass link_class, std::string_view place) {
  switch (link_class) {
    case UnitClass::host:
      return "system.host_link";
    case UnitClass::link:
      return find_link_section(topology, place);
    case UnitClass::ucie:
      return "sip.ucie";
    case UnitClass::noc:
      return place.find(".noc.") == place.npos ? "cube.noc.corner" : "cube.noc";
    case UnitClass::sram:
      return "cube.sram";
    case UnitClass::hbm:
      return "cube.hbm";
    default:
      return "pe.tcm";
  }
}

// Lists the keys that could make an edge of the path shorter.  An edge of a PE does not record
// which of its units was busy, so the keys of all units are listed.
std::vector<std::string> list_keys(const Topology& topology, const runtime::PathRow& row) {
  const std::string section =
      row.link_class ? find_section(topology, *row.link_class, row.place) : "";
  switch (row.cause) {
    case Cause::host:
      return {"system.host_link.issue"};
    case Cause::launch:
      return {"system.host_link.latency", "system.host_link.issue"};
    case Cause::issue:
      return {"pe.cpu.issue", "pe.scheduler.dispatch"};
    case Cause::busy:
    case Cause::compute:
      return {"pe.gemm.clock", "pe.math.clock"};
    case Cause::dma:
      return {"pe.dma.setup", "pe.ipcq.latency"};
    case Cause::queue:
    case Cause::bytes:
      return {section + ".bandwidth"};
    case Cause::latency:
      return {section + ".latency"};
    case Cause::hbm:
      return {"cube.hbm.bandwidth", "cube.hbm.latency"};
    case Cause::tcm:
      return {"pe.tcm.compute_bandwidth"};
    case Cause::credit:
      return {"system.sip_link.latency"};
    default:
      return {};
  }
}

// The longest system of a run, and what has to be repeated for it.
struct Explained {
  Time time{0};
  std::size_t number = 0;                 // in the repetition
  std::size_t variant = 0;                // the variant to repeat
  std::vector<FinishedPoint> known = {};  // points that need not be repeated
};

bool has_system(const FinishedPoint& point, std::size_t number) {
  return number >= point.first_system && number < point.first_system + point.outcome.systems.size();
}

Time time_of(const EngineStatistics& system, runtime::ProfiledTime time) {
  return time == runtime::ProfiledTime::timed ? system.timed : system.simulated;
}

Explained longest_system(const BenchRun& run, runtime::ProfiledTime time) {
  const std::vector<EngineStatistics> systems = run.contexts.statistics();
  const auto longest = std::ranges::max_element(systems, {}, &EngineStatistics::timed);
  return {time_of(*longest, time), static_cast<std::size_t>(longest - systems.begin())};
}

const FinishedPoint* find_point(const BenchRun& run, std::size_t system) {
  const auto& points = run.finished_points();
  const auto point = std::ranges::find_if(
      points, [&](const FinishedPoint& one) { return has_system(one, system); });
  return point == points.end() ? nullptr : &*point;
}

Explained explained_system(const BenchRun& run, std::span<const Variant> variants,
                           runtime::ProfiledTime time) {
  Explained explained = longest_system(run, time);
  for (const FinishedPoint& point : run.finished_points()) {
    if (!has_system(point, explained.number)) explained.known.push_back(point);
  }
  if (variants.size() == 1) return explained;
  // The points are the variants, each with a run of its own.
  const FinishedPoint* const point = find_point(run, explained.number);
  explained.known.clear();
  explained.number -= point->first_system;
  explained.variant = static_cast<std::size_t>(
      std::ranges::find(variants, point->key, &Variant::name) - variants.begin());
  return explained;
}

// Repeats a variant, for the time of one of its systems.
Row repeat(PointContext& point, const BenchInfo& info, const Variant& variant, std::size_t system,
           runtime::ProfiledTime time) {
  try {
    run_variant(point, info, variant);
  } catch (const Error& error) {
    point.throw_if_interrupted();
    return Row().set("fault", error.what());
  }
  const std::vector<EngineStatistics> systems = point.contexts().statistics();
  if (system >= systems.size()) return Row().set("fault", "the bench simulates fewer systems then");
  return Row().set("after", time_of(systems[system], time).count());
}

std::string sentence(const Improvement& one) {
  return fmt::format("{} twice as fast, {} instead of {}: {:.3f} us, {:.3f} times as fast\n",
                     one.key, one.twice, one.value, to_ns(one.after) / 1e3, one.speed_up());
}

}  // namespace

double Improvement::speed_up() const {
  return static_cast<double>(before.count()) / static_cast<double>(std::max(after.count(), 1L));
}

std::vector<std::string> keys_on(const Topology& topology, const runtime::CriticalPath& path) {
  std::map<std::string, Time> shares;
  Time all{0};
  for (const runtime::PathRow& row : path.rows) {
    all += row.total;
    for (const std::string& key : list_keys(topology, row)) shares[key] += row.total;
  }
  std::vector<std::pair<Time, std::string>> sorted;
  for (const auto& [key, share] : shares) {
    if (share * kLeastShare >= all) sorted.emplace_back(share, key);
  }
  std::ranges::stable_sort(sorted, std::greater(), &std::pair<Time, std::string>::first);
  std::vector<std::string> keys;
  for (const auto& [share, key] : sorted) keys.push_back(key);
  return keys;
}

std::string explained_point(const BenchRun& run) {
  const std::size_t count = run.finished_points().size();
  if (count < 2) return "";
  const FinishedPoint* const point =
      find_point(run, longest_system(run, runtime::ProfiledTime::timed).number);
  if (point == nullptr) return "";
  return fmt::format("{}, the longest of {} points; give one value in --set for another",
                     point->key, count);
}

std::vector<Improvement> what_helps(Bench& bench, const RunVariants& ran,
                                    const runtime::CriticalPath& path, runtime::ProfiledTime time) {
  const Explained explained = explained_system(bench.run(), ran.variants, time);
  const VariantMaker maker(make_request(ran.request, ran.variants[explained.variant]));
  std::vector<Improvement> improvements;
  std::vector<Variant> faster;
  for (const std::string& key : keys_on(ran.variants[explained.variant].topology, path)) {
    const std::string value = value_in_force(maker, key);
    const std::optional<Choice> twice = twice_as_fast(maker, key);
    if (!twice || improvements.size() == kMostReruns) continue;
    improvements.push_back({key, value, twice->value, explained.time});
    faster.push_back(maker.first({&*twice, 1}));
  }
  Reruns reruns(bench.run(), explained.known);
  Sweep sweep(reruns.bench(), "explain");
  for (std::size_t i = 0; i < faster.size(); ++i) {
    sweep.add(improvements[i].key, [&, i](PointContext& point) {
      return repeat(point, *ran.request.bench, faster[i], explained.number, time);
    });
  }
  const std::vector<Row> rows = sweep.run();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Cell* const after = rows[i].find("after");
    if (after == nullptr) improvements[i].fault = text_in(rows[i], "fault");
    if (after != nullptr) improvements[i].after = Time{std::get<std::int64_t>(*after)};
  }
  return improvements;
}

std::string to_text(std::vector<Improvement> improvements) {
  std::ranges::stable_sort(improvements, std::greater(), [](const Improvement& one) {
    return one.fault.empty() ? one.speed_up() : 0;
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostSentences, improvements.size()); ++i) {
    const Improvement& one = improvements[i];
    if (!one.fault.empty()) {
      text += fmt::format("{} twice as fast cannot be tried: {}\n", one.key, one.fault);
    } else if (one.speed_up() >= kWorthIt) {
      text += sentence(one);
    }
  }
  if (text.empty()) {
    const bool is_untouched = std::ranges::all_of(
        improvements, [](const Improvement& one) { return one.after == one.before; });
    text = is_untouched ? "nothing that --set changes: it does not change this system's machine\n"
                        : "nothing: no resource of the path helps alone\n";
  }
  return "what helps, by running again\n" + text;
}

}  // namespace kernbench::benches::variants
