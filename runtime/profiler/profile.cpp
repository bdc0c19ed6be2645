#include "runtime/profiler/profile.h"

#include <algorithm>
#include <map>
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

// The part of a span that lies in the profile's window.
struct Part {
  Time start;
  Time end;
  Time length() const { return std::max(end - start, Time{0}); }
};

Part clip(const RunSpan& span, const Profile& profile) {
  return {std::max(span.start, profile.from), std::min(span.end, profile.to)};
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

std::vector<OperationRow> collect_operations(const Simulation& simulation, const RunLog& log,
                                             const Profile& profile) {
  std::map<std::tuple<Kind, std::string, std::string, std::string, std::string, int, std::string>,
           OperationRow>
      rows;
  const std::vector<Time> slacks = compute_slacks(log, profile.to);
  for (std::size_t i = 0; i < log.spans().size(); ++i) {
    const RunSpan& span = log.spans()[i];
    const Part part = clip(span, profile);
    if (!is_operation(span.kind) || span.end < profile.from || part.end < part.start) continue;
    const std::string phase = span.scope ? log.spans()[*span.scope].name : "";
    OperationRow& row =
        rows[{span.kind, span.name, span.where, phase, span.part, span.group, span.algorithm}];
    row.name = span.name;
    row.kind = name_of(span.kind);
    row.where = span.where;
    row.phase = phase;
    row.part = span.part;
    row.group = span.group;
    row.algorithm = span.algorithm;
    ++row.count;
    row.bytes += span.bytes;
    row.total += part.length();
    row.longest = std::max(row.longest, part.length());
    row.slack = std::min(row.slack, slacks[i]);
    row.operations += span.operations;
    row.pe_count = std::max(row.pe_count, span.pe_count);
    if (span.kind == Kind::kernel) continue;
    const Intervals& computing = simulation.activity().computing(span.device);
    row.exposed += part.length() - computing.covered(part.start, part.end);
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
    const Time length = clip(span, profile).length();
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

// Only launches that have begun and ended in the window count.
std::map<int, LaunchTime> collect_launches(const RunLog& log, const Profile& profile) {
  std::map<int, LaunchTime> by_device;
  for (const RunSpan& span : log.spans()) {
    if (span.kind != Kind::kernel || span.returned == Time{0}) continue;
    if (span.issued < profile.from || span.returned > profile.to) continue;
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

}  // namespace

ProfileStart profile_start(const Simulation& simulation) {
  ProfileStart start{simulation.now(), {}};
  for (int device = 0; device < simulation.topology().system.sip_count; ++device) {
    start.activity.push_back(simulation.activity().of(device));
  }
  return start;
}

Profile make_profile(const Simulation& simulation, const ProfileStart& start) {
  Profile profile;
  profile.from = start.at;
  profile.to = simulation.now();
  for (int device = 0; device < simulation.topology().system.sip_count; ++device) {
    DeviceActivity activity = simulation.activity().of(device);
    if (!start.activity.empty()) {
      activity = activity - start.activity[static_cast<std::size_t>(device)];
    }
    profile.ranks.push_back(make_rank_time(device, activity, profile.duration()));
  }
  profile.units = simulation.machine().unit_classes();
  profile.tcm = simulation.machine().compute_traffic();
  profile.pe_waits = collect_pe_waits(simulation.machine());
  profile.path = find_critical_path(simulation, profile);
  const RunLog* const log = simulation.run_log();
  if (log == nullptr) return profile;
  profile.operations = collect_operations(simulation, *log, profile);
  profile.waits = collect_waits(*log, profile);
  for (const auto& [device, time] : collect_launches(*log, profile)) {
    if (time.total() <= profile.launches.total()) continue;
    profile.launches = time;
    profile.launch_rank = device;
  }
  return profile;
}

}  // namespace kernbench::runtime
