#include "runtime/profiler/profile.h"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <tuple>

#include "runtime/profiler/critical_path.h"
#include "runtime/profiler/slack.h"
#include "runtime/simulation/simulation.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/processing_element.h"

namespace kernbench::runtime {

namespace {

using Kind = RunSpan::Kind;

// The profile's parts that [start, end] touches.
std::span<const TimedPart> parts_at(const Profile& profile, Time start, Time end) {
  const auto first = std::ranges::lower_bound(profile.parts, start, {}, &TimedPart::to);
  const auto last = std::ranges::upper_bound(first, profile.parts.end(), end, {}, &TimedPart::from);
  return {first, last};
}

// Sums what length(from, to) gives of the pieces of a span that lie in the profile's parts.
template <class Length>
Time sum_pieces(const RunSpan& span, const Profile& profile, const Length& length) {
  Time sum{0};
  for (const TimedPart& part : parts_at(profile, span.start, span.end)) {
    const Time from = std::max(span.start, part.from);
    const Time to = std::min(span.end, part.to);
    if (from < to) sum += length(from, to);
  }
  return sum;
}

Time time_in(const Profile& profile, const RunSpan& span) {
  return sum_pieces(span, profile, [](Time from, Time to) { return to - from; });
}

// A span that ends as a part begins, or begins as it ends, is not in it.
bool is_in(const Profile& profile, const RunSpan& span) {
  return std::ranges::any_of(parts_at(profile, span.start, span.end), [&](const TimedPart& part) {
    return (span.end > part.from || span.start >= part.from) &&
           (span.start < part.to || span.end <= part.to);
  });
}

DeviceActivity activity_in(const Profile& profile, const Simulation& simulation, int device) {
  if (simulation.run_log() == nullptr) return simulation.activity().of(device);
  DeviceActivity sum;
  for (const TimedPart& part : profile.parts) {
    sum += simulation.activity().between(device, part.from, part.to);
  }
  return sum;
}

RankTime make_rank_time(int device, const DeviceActivity& activity, Time duration) {
  RankTime time{.rank = device,
                .compute_only = activity.computing - activity.overlapped,
                .both = activity.overlapped,
                .exposed = activity.exposed(),
                .idle = duration - activity.busy()};
  const bool adds_up = time.total() == duration;
  const Time least = std::min({time.compute_only, time.both, time.exposed, time.idle});
  KB_CHECK(adds_up && least >= Time{0}, "device {}: {}, {}, {} and {} of {}", device,
           time.compute_only, time.both, time.exposed, time.idle, duration);
  return time;
}

bool is_operation(Kind kind) {
  return kind == Kind::kernel || kind == Kind::collective || kind == Kind::message;
}

enum class Grouping : std::uint8_t { by_call, by_module };

std::vector<OperationRow> collect_operations(const Simulation& simulation, const RunLog& log,
                                             const std::vector<Time>& slacks,
                                             const Profile& profile, Grouping grouping) {
  std::map<std::tuple<Kind, std::string, std::string, std::string, std::string, int, std::string,
                      std::string>,
           OperationRow>
      rows;
  for (std::size_t i = 0; i < log.spans().size(); ++i) {
    const RunSpan& span = log.spans()[i];
    if (!is_operation(span.kind) || !is_in(profile, span)) continue;
    const Time time = time_in(profile, span);
    const std::string phase = span.scope ? log.spans()[*span.scope].name : "";
    const std::string module = grouping == Grouping::by_module ? span.module : "";
    OperationRow& row = rows[{span.kind, span.name, span.where, phase, span.part, span.group,
                              span.algorithm, module}];
    row.name = span.name;
    row.kind = name_of(span.kind);
    row.where = span.where;
    row.phase = phase;
    row.part = span.part;
    row.module = module;
    row.group = span.group;
    row.algorithm = span.algorithm;
    ++row.count;
    row.bytes += span.bytes;
    row.total += time;
    row.longest = std::max(row.longest, time);
    row.slack = std::min(row.slack, slacks[i]);
    row.operations += span.operations;
    row.pe_count = std::max(row.pe_count, span.pe_count);
    if (span.kind == Kind::kernel) continue;
    const Intervals& computing = simulation.activity().computing(span.device);
    row.exposed += time - sum_pieces(span, profile, [&](Time from, Time to) {
                     return computing.covered(from, to);
                   });
  }
  std::vector<OperationRow> sorted;
  for (auto& [key, row] : rows) sorted.push_back(std::move(row));
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &OperationRow::total);
  return sorted;
}

// The name leaves the device out, so that ranks that wait for the same share a row: "kernel 'add'
// on 2 PEs".
std::string on_any_device(const std::string& what) {
  const std::size_t at = what.rfind(" of sip");
  if (at == std::string::npos) return what;
  const std::size_t end =
      what.find_first_not_of("0123456789", at + std::string_view(" of sip").size());
  return end == std::string::npos ? what.substr(0, at) : what;
}

std::vector<WaitRow> collect_waits(const RunLog& log, const Profile& profile) {
  std::map<std::pair<std::string, std::string>, std::map<int, Time>> by_rank;
  std::map<std::pair<std::string, std::string>, std::int64_t> counts;
  for (const RunSpan& span : log.spans()) {
    const Time length = time_in(profile, span);
    if (span.kind != Kind::wait || span.rank < 0 || length == Time{0}) continue;
    const std::string what = on_any_device(span.name);
    const std::pair key(span.part.empty() ? what : span.part + ": " + what, span.where);
    by_rank[key][span.rank] += length;
    ++counts[key];
  }
  std::vector<WaitRow> rows;
  for (const auto& [key, ranks] : by_rank) {
    WaitRow row{.what = key.first, .where = key.second, .count = counts[key]};
    for (const auto& [rank, time] : ranks) {
      row.total += time;
      row.longest = std::max(row.longest, time);
    }
    rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(rows, std::ranges::greater{}, &WaitRow::total);
  return rows;
}

Time sum_waits(const sim::Waits& waits) {
  Time sum{0};
  for (const sim::WaitCause cause : sim::kWaitCauses) sum += waits[cause];
  return sum;
}

PeWaits collect_pe_waits(const sim::Machine& machine) {
  const Topology& topology = machine.topology();
  PeWaits result;
  sim::PeLocation at;
  for (at.sip = 0; at.sip < topology.system.sip_count; ++at.sip) {
    for (at.cube = 0; at.cube < topology.cube_count(); ++at.cube) {
      for (at.pe = 0; at.pe < topology.pe_count(); ++at.pe) {
        const sim::Waits& own = machine.pe(at).waits();
        result.all += own;
        if (sum_waits(own) <= sum_waits(result.most)) continue;
        result.most = own;
        result.pe = to_string(at);
      }
    }
  }
  return result;
}

LaunchTime time_of_launch(const RunSpan& span) {
  return {.queued = span.taken_up - span.issued,
          .launch = span.start - span.taken_up,
          .skew = span.last_start - span.start,
          .kernel = span.end - span.last_start,
          .back = span.returned - span.end};
}

bool lies_in(const Profile& profile, Time from, Time to) {
  return std::ranges::any_of(
      profile.parts, [&](const TimedPart& part) { return from >= part.from && to <= part.to; });
}

// Only launches that have begun and ended in a part count.
std::map<int, LaunchTime> collect_launches(const RunLog& log, const Profile& profile) {
  std::map<int, LaunchTime> by_device;
  for (const RunSpan& span : log.spans()) {
    if (span.kind != Kind::kernel || span.returned == Time{0}) continue;
    if (!lies_in(profile, span.issued, span.returned)) continue;
    const LaunchTime one = time_of_launch(span);
    LaunchTime& sum = by_device[span.rank];
    sum.queued += one.queued;
    sum.launch += one.launch;
    sum.skew += one.skew;
    sum.kernel += one.kernel;
    sum.back += one.back;
  }
  return by_device;
}

TimedPart run_since(const Simulation& simulation, Time from) {
  const sim::CauseLog* const causes = simulation.machine().engine().causes();
  return {.from = from,
          .to = simulation.now(),
          .known_at = causes == nullptr ? sim::CauseId::begin : causes->current()};
}

// A run may be recorded from its middle on, as by a `profiler::profile`.  Its chain of causes
// begins there.
Time find_begin_of_record(const Simulation& simulation) {
  const sim::CauseLog* const causes = simulation.machine().engine().causes();
  if (causes == nullptr) return Time{0};
  const auto path = causes->critical_path(causes->current(), Time{0}, simulation.now());
  return path.empty() ? simulation.now() : path.front().start;
}

Profile make_profile_of(const Simulation& simulation, std::vector<TimedPart> parts) {
  Profile profile;
  profile.parts = std::move(parts);
  profile.run = simulation.now();
  for (int device = 0; device < simulation.topology().system.sip_count; ++device) {
    const DeviceActivity activity = activity_in(profile, simulation, device);
    profile.ranks.push_back(make_rank_time(device, activity, profile.duration()));
  }
  profile.units = simulation.machine().unit_classes();
  profile.tcm = simulation.machine().compute_traffic();
  profile.pe_waits = collect_pe_waits(simulation.machine());
  profile.path = find_critical_path(simulation, profile);
  const RunLog* const log = simulation.run_log();
  if (log == nullptr) return profile;
  const std::vector<Time> slacks = compute_slacks(*log, profile.parts);
  profile.operations = collect_operations(simulation, *log, slacks, profile, Grouping::by_call);
  const bool has_modules =
      std::ranges::any_of(log->spans(), [](const RunSpan& span) { return !span.module.empty(); });
  if (has_modules) {
    profile.by_module = collect_operations(simulation, *log, slacks, profile, Grouping::by_module);
  }
  profile.waits = collect_waits(*log, profile);
  for (const auto& [device, time] : collect_launches(*log, profile)) {
    if (time.total() <= profile.launches.total()) continue;
    profile.launches = time;
    profile.launch_rank = device;
  }
  return profile;
}

}  // namespace

Profile make_profile(const Simulation& simulation, ProfiledTime time) {
  const Time begin = find_begin_of_record(simulation);
  std::vector<TimedPart> parts;
  if (time == ProfiledTime::timed && simulation.run_log() != nullptr)
    parts = simulation.timed_parts();
  std::erase_if(parts, [&](const TimedPart& part) { return part.from < begin; });
  if (parts.empty()) parts.push_back(run_since(simulation, begin));
  return make_profile_of(simulation, std::move(parts));
}

Profile make_profile(const Simulation& simulation, Time from) {
  return make_profile_of(simulation, {run_since(simulation, from)});
}

}  // namespace kernbench::runtime
