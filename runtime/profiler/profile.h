// A profile says where the time of a run went: what each rank did at every moment, which operations
// took the time, which units were busy.  It comes as numbers and as text (ADR-0203).

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/simulation/timed_parts.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/core/cause.h"

namespace kernbench::runtime {

// The detail of a trace.  Each level includes those before it.
enum class TraceLevel : std::uint8_t {
  ranks,    // what the programs of ranks did, and their collectives and messages
  kernels,  // kernels too, a span for each launch on a device
  units     // the device's units too, a track for each, and its messages as arrows
};

class Simulation;

// The time of one rank's device, by what it did.  The four times add up to the duration: at every
// moment it is in exactly one of these classes.
struct RankTime {
  int rank = 0;          // the device, where ranks are no devices
  Time compute_only{0};  // a kernel of the program ran, and no communication was under way
  Time both{0};          // both at once: communication that is hidden
  Time exposed{0};       // a collective or message was under way, and no kernel ran
  Time idle{0};          // neither
  Time total() const { return compute_only + both + exposed + idle; }
};

// All calls of one kind, by what the user's program calls them.
struct OperationRow {
  std::string name = {};       // "add", "all_reduce"
  std::string kind = {};       // "kernel", "collective", "message"
  std::string where = {};      // "ddp.cpp:41"; empty: called by an operator
  std::string phase = {};      // the innermost scope (profiler::record_function) of the call
  std::string part = {};       // what the call is a part of: "bucket 0"
  std::string module = {};     // of Profile::by_module, the module's path: "blocks.3.up"
  int group = -1;              // of a collective or message: the number of its group
  std::string algorithm = {};  // of a collective
  std::int64_t count = 0;
  Bytes bytes = 0;              // kernels: from and to HBM; calls: of the ranks' tensors
  Time total{0};                // summed over calls
  Time exposed{0};              // of a collective or message: in which no kernel ran on the device
  Time longest{0};              // of one call
  Time slack = Time::max();     // how much later each call could end without delaying the run's end
  std::int64_t operations = 0;  // of a kernel: arithmetic ones
  int pe_count = 0;             // of a kernel: the most PEs that it ran on
};

// The time of launches, summed over those of one rank.  Queued ones wait for each other, so that
// the sum may be longer than the run.
struct LaunchTime {
  Time queued{0};  // from its issue until the device takes it up: the way there, those before it
  Time launch{0};  // until the first PE begins
  Time skew{0};    // until the last PE begins
  Time kernel{0};  // until the last PE has ended
  Time back{0};    // until the host knows
  Time total() const { return queued + launch + skew + kernel + back; }
};

// The waits of the ranks' programs.
struct WaitRow {
  std::string what = {};  // "kernel 'add' on 2 PEs of sip0", "bucket 0: collective ..."
  std::string where = {};
  std::int64_t count = 0;
  Time total{0};    // summed over ranks
  Time longest{0};  // of one rank, summed over its waits
};

// The time that the critical path spends at one place for one cause, or at several places that are
// alike: as often and as long at each.
struct PathRow {
  sim::Cause cause = sim::Cause::other;
  std::string place = {};  // "sip0.link.east"; of several the first; empty: it has none
  std::int64_t place_count = 1;
  std::optional<sim::UnitClass> link_class = {};  // of a place that is a link
  std::int64_t count = 0;                         // of edges
  Time total{0};                                  // summed over places

  // "sip0.cube0.hbm0 and 13 alike"
  std::string places_text() const;
};

// The longest chain of causes through each of the profile's parts: its edges follow each other, and
// their lengths add up to the duration (ADR-0203).  No edges: causes were not recorded.
struct CriticalPath {
  std::vector<sim::CauseEdge> edges;
  std::array<Time, sim::kCauseCount> by_cause{};
  std::vector<PathRow> rows;  // the longest total first

  Time of(sim::Cause cause) const { return by_cause.at(static_cast<std::size_t>(cause)); }
};

// The waits of kernels and their commands: of all PEs together, and of the PE that has waited most.
struct PeWaits {
  sim::Waits all;
  sim::Waits most;
  std::string pe = {};  // "sip0.cube0.pe3"; empty: none has waited
};

struct Profile {
  // The parts of the run that it speaks of, one after the other.
  std::vector<TimedPart> parts;
  Time run{0};  // the time of the whole run
  std::vector<RankTime> ranks;
  std::vector<OperationRow> operations;  // the longest total first
  std::vector<OperationRow> by_module;   // likewise, each module apart; empty: none was called
  std::vector<WaitRow> waits;            // likewise
  LaunchTime launches;                   // of the program's kernels, on the device where most
  int launch_rank = 0;                   // that device
  CriticalPath path;
  PeWaits pe_waits;  // of the whole run, as units
  // The units count the whole run, of which the parts may be a little.
  std::array<sim::UnitClassUse, sim::kUnitClassCount> units;
  sim::ComputeTraffic tcm;  // of all PEs, likewise

  Time duration() const { return sum_durations(parts); }
  // True if the parts are those that the program has timed, and not all of the run.
  bool is_timed() const {
    return !parts.empty() && !parts.front().name.empty() && duration() < run;
  }
};

// The part of a run that a profile describes.
enum class ProfiledTime : std::uint8_t {
  whole,  // all of it
  timed   // Simulation::timed_parts(); all of it if there is none
};

// REQUIRES: the simulation keeps a run log; without one there are no operations and no waits, and
// all of the run is profiled
Profile make_profile(const Simulation& simulation, ProfiledTime time = ProfiledTime::whole);
// The profile of the run from `from` until now.  REQUIRES: the simulation keeps a run log since
// then
Profile make_profile(const Simulation& simulation, Time from);

// The order of rows in table(): the largest first, of slack the smallest.
enum class SortBy { total, average, longest, exposed, slack, count, bytes };

// Takes torch's names of `sort_by` whose figures a simulated device has ("cuda_time_total",
// "device_time", "count"), and those of SortBy; "" is "total".  Throws CollectiveError KB-R031,
// which lists them, for any other.
SortBy parse_sort_by(std::string_view name);

// The operations as torch's key_averages().table(): a line for each, at most `row_limit`.
std::string table(const Profile& profile, SortBy sort_by = SortBy::total,
                  std::size_t row_limit = 100);

// All tables of a profile: ranks, operations, units by class, launches, waits by cause and by line.
std::string summary(const Profile& profile);

// Writes where the time went: ranks, operations, units, launches, waits.  At most 40 lines, however
// many ranks and operations there are.
std::string explain(const Profile& profile);

}  // namespace kernbench::runtime
