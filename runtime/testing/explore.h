// Explores the schedules of a program of several ranks (ADR-0100): what the order of simultaneous
// events, the speed of links and ranks, the sender that a receive from any rank gets, or the depth
// of queues decides must not change what it computes.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/torch/runtime_context.h"

namespace kernbench::testing {

// What differs from run to run.
enum class Vary : std::uint8_t {
  ties = 1,         // the order of events of the same instant, as of ranks that begin
  latencies = 2,    // parts of the machine are slower, and calls take longer
  matches = 4,      // the sender whose message a receive from any rank gets
  depths = 8,       // the depth of the collectives' queues
  start_times = 16  // ranks begin late
};
constexpr Vary operator|(Vary a, Vary b) {
  return static_cast<Vary>(static_cast<int>(a) | static_cast<int>(b));
}
constexpr bool includes(Vary all, Vary one) {
  return (static_cast<int>(all) & static_cast<int>(one)) != 0;
}
inline constexpr Vary kVaryAll =
    Vary::ties | Vary::latencies | Vary::matches | Vary::depths | Vary::start_times;

struct ExploreOptions {
  int ranks = 4;  // of small devices in a ring
  std::string backend = "local";
  std::optional<Topology> topology = std::nullopt;  // in place of `ranks`
  RuntimeOptions options = {};
  int runs = 1000;
  // In half of the runs that vary ties, a rank goes on as long as no rank of a higher priority can,
  // and priorities change so many times less one (probabilistic concurrency testing).
  int depth = 3;
  std::uint64_t seed = 1;  // equal seeds explore equally
  // Each run varies some of these kinds.
  Vary vary = kVaryAll;
  std::vector<std::string> sometimes = {};  // names that KB_SOMETIMES must have held for
  int deepest = 8;                          // queues have 1 to so many slots
  int slowest_percent = 100;                // a part is at most so much slower
};

struct ExhaustiveOptions {
  int ranks = 4;
  std::string backend = "local";
  std::optional<Topology> topology = std::nullopt;  // in place of `ranks`
  RuntimeOptions options = {};
  std::int64_t limit = 10'000;  // of schedules
};

struct ExploreReport {
  std::string call = "explore()";  // or "exhaustive()"
  std::int64_t runs = 0;           // schedules that were run to their end
  std::int64_t redundant = 0;      // runs given up, since they differed from another in order alone
  bool is_complete = false;        // of exhaustive(): no other schedule exists
  Time least{0};                   // simulated times
  Time most{0};
  std::map<std::string, std::int64_t> sometimes = {};  // how often each held

  // "all 6 schedules", "the first 100 schedules, not all", "1000 schedules, 0 ns to 12.5 us".
  std::string text() const;
};

// The run of a program with the topology and options of one schedule.  `depth` is that of queues,
// 0 as usual.  It calls `ended` when the program has, before the context ends.
struct ProgramRun {
  const Topology& topology;
  RuntimeOptions options;
  int depth = 0;
  std::function<void()> ended;
};
using Program = std::function<void(const ProgramRun&)>;

// Where the program comes from, for reports.
struct ExploredTest {
  std::string name;  // of the test; empty: it is no test
  std::source_location location;
};

// Runs a program in the usual schedule, and in options.runs others.  What World::observe() and the
// assertions were given, and what collectives have returned, must be the same bits in all.  Throws
// what the usual run throws; else Error KB-N060 (exit code 24) with the first difference, or what
// a run threw, the schedule that leads there, with as few choices that are not the usual ones as
// could be found, and a line that repeats it; KB-N061 if two runs of one schedule differ, KB-N062
// if KB_SOMETIMES has not held.  If KERNBENCH_REPLAY is set, that schedule is run alone; throws
// UsageError KB-U030 if it is none, or of another program or version.
ExploreReport explore_program(const ExploreOptions& options, const Program& program,
                              const ExploredTest& test);

// Runs a program in every schedule that can differ in what ranks see: each order of what they do to
// a Store's key, or see of works by polling, within an instant, and each message that a receive
// from any rank may get.  Orders of steps that share none of these count once.  What ranks share
// behind the back of `torch`, as a captured variable, is not seen.  Throws as explore_program().
ExploreReport exhaust_program(const ExhaustiveOptions& options, const Program& program,
                              const ExploredTest& test);

// Called by a rank, or by the driver for rank 0: the elements must be equal in all schedules.
// Without an exploration they do nothing.  The second one takes no notice of a host tensor.
void observe(const RuntimeContext& torch, std::string_view name, const Tensor& tensor);
void observe(const Tensor& tensor, std::string_view name, std::span<const float> elements);

// Throws UsageError KB-U031, naming the option, if the value is less than 1.
void check_positive(std::string_view option, std::int64_t value);

// Lets the calling rank begin as late as the schedule wants.
void wait_for_start(const RuntimeContext& torch);

// Counts that the condition held in this exploration.
void sometimes(bool condition, std::string_view name);

// A condition that must hold in at least one run of an exploration, else it has not tested what it
// is there for.
#define KB_SOMETIMES(condition, name) ::kernbench::testing::sometimes((condition), (name))

}  // namespace kernbench::testing
