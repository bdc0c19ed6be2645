// One run of a bench: what the program, sweeps and evaluations need of it beside what its author
// sees (bench.h).

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/console.h"
#include "benches/bench/context_set.h"
#include "benches/bench/point_outcome.h"
#include "benches/bench/registry.h"
#include "benches/bench/report.h"

namespace kernbench::benches {

class ProcessTeam;
class SweepRun;

// A point of a sweep that has run.
struct FinishedPoint {
  std::string sweep;
  std::string key;
  PointOutcome outcome;
  std::size_t first_system = 0;  // the number of its first system among those of the run
};

// Every n-th point of a sweep: the shard 2/3 has the second, the fifth, ...
struct SweepShard {
  std::size_t number = 1;
  std::size_t count = 1;
};

// Thrown when the shard's points of a sweep are in its journal and others are missing: the run ends
// well, without results.
struct ShardEnded {
  std::string text;
};

// The request that the command line of `kernbench run` makes.
struct BenchRequest {
  Topology topology;
  ccl::Config ccl;
  bool ccl_is_given = false;       // by --ccl, or a key of it by --set
  bool ccl_file_is_given = false;  // by --ccl
  std::string ccl_name = {};       // ccl_name() of it
  std::uint64_t seed = 0;
  std::optional<std::uint64_t> shuffle_ties = {};  // RuntimeOptions::shuffle_ties of all contexts
  std::optional<int> tie_orders = {};  // in which all is simulated besides; else BenchInfo's
  Folds folds = Folds::by_number;
  Recording recording = {};
  std::filesystem::path output_folder = {};  // --out; empty if it is not given
  int jobs = 1;                              // points of a sweep simulated at once
  std::string inputs = {};                   // the texts of all files that were read
  ProcessTeam* team = nullptr;               // shares the points of sweeps; null: none
  bool shows_progress = true;                // of sweeps, to people
  SweepShard shard = {};                     // of each sweep; part of it: output_folder is given
  std::vector<std::filesystem::path> journals = {};  // folders whose journals have points too
  // Points of another run that are taken over, so that the others alone are simulated.
  std::span<const FinishedPoint> known = {};
  // Gets the first rows as soon as there are any, and throws what is wrong with them; may be null.
  std::function<void(std::span<const Row>)> check_first = {};
};

struct Artifact {
  std::string name;
  std::string content;
};

// All members are called from one thread, except those that say otherwise.
class BenchRun {
 public:
  BenchRun(BenchRequest its_request, Settings its_settings, Console& its_console);
  // A run that is a part of another run, as a point of its sweep, and is interrupted with it: it
  // prints and writes nothing.
  BenchRun(BenchRequest its_request, Settings its_settings, Console& its_console,
           ContextSet& whole);
  BenchRun(const BenchRun&) = delete;
  BenchRun& operator=(const BenchRun&) = delete;

  // Applies the bench's settings to the request's ccl.yaml.
  void configure(const BenchInfo& info);

  BenchRequest request;
  const Settings settings;
  Console& console;
  ContextSet contexts;
  std::filesystem::path output_folder;  // of artifacts and journals; empty: they are dropped
  bool has_printed = false;

  // True if this run prints and writes: of a team the first process does, a point does not.
  bool leads() const;
  bool is_point() const { return is_point_; }

  // Everything is also simulated in this many other orders of simultaneous events.
  int tie_orders() const { return request.tie_orders.value_or(0); }

  // A hash of everything that results depend on: this build of the program, the files it was given,
  // the seeds, the settings.  Results saved under another hash are stale.
  std::uint64_t inputs_hash() const;

  // May be called from another thread.  Stops all present and later simulations with KB-S001 and
  // this exit code.
  void interrupt(ExitCode reason = ExitCode::interrupted) { contexts.interrupt(reason); }
  bool is_interrupted() const { return contexts.is_interrupted(); }
  // Throws Error KB-S001 if the run is interrupted.
  void throw_if_interrupted() const;

  // Adds rows and whether they have passed; `what` names them where they have not.
  void add_rows(std::span<const Row> rows, bool ok, std::string_view what);
  const std::vector<Row>& rows() const { return rows_; }
  // KB-B003 and the first rows that have not passed, each in a line; empty if all have.
  std::string describe_failed() const;
  // May be called from any thread.  Says if all of them have passed, and returns the rows finished
  // so far, including those of a running sweep.
  bool ok() const;
  std::vector<Row> finished_rows() const;
  void set_sweep(const SweepRun* sweep);  // the running sweep; null: none

  // Points of sweeps that have ended, in order; none unless the run is profiled.
  void add_point(FinishedPoint point) { finished_points_.push_back(std::move(point)); }
  const std::vector<FinishedPoint>& finished_points() const { return finished_points_; }

  void add_artifact(std::string_view file_name, std::string content);
  // This run has no artifact of that name: one left by an earlier run is removed when the artifacts
  // are written.
  void drop_artifact(std::string_view file_name) { dropped_artifacts_.emplace_back(file_name); }
  const std::vector<Artifact>& artifacts() const { return artifacts_; }
  const std::vector<std::string>& dropped_artifacts() const { return dropped_artifacts_; }

  // Adds the journal of a sweep, which is there for the case of an interruption, or, if it `stays`,
  // for later runs.  False if there is one of that path already.
  bool add_journal(const std::filesystem::path& journal, bool stays);
  // Called when all results are written.
  void remove_journals();

  EngineStatistics statistics() const;  // without wall time

  // Called when the bench has returned.  Throws Error KB-B001 if it has submitted no work.
  void check_contract(std::string_view name) const;
  // Called when the bench has returned: a warning if --set or the given --ccl names an algorithm
  // that has run none of the bench's collectives, else nullopt.
  std::optional<std::string> unused_algorithm() const;

 private:
  const bool is_point_ = false;
  mutable std::mutex results_mutex_;  // guards the next three, for finished_rows()
  std::vector<Row> rows_;
  const SweepRun* sweep_ = nullptr;
  bool ok_ = true;
  std::vector<std::string> failed_ = {};  // what has not passed
  std::vector<FinishedPoint> finished_points_;
  std::vector<Artifact> artifacts_;
  std::vector<std::string> dropped_artifacts_;
  std::map<std::filesystem::path, bool> journals_;  // whether each of them stays
};

// Formats a line of the head.
std::string note_line(std::string_view what, std::string_view text);

// All registered benches.
const Registry<BenchInfo>& registered_benches();

}  // namespace kernbench::benches
