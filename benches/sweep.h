// A sweep: independent points, each simulated with engines of its own, on all cores.
//
//   benches::Sweep sweep(bench, "latency");
//   for (const std::int64_t n_elem : sizes) {
//     sweep.add(fmt::format("{} elements", n_elem), [n_elem](benches::PointContext& point) {
//       const auto torch = point.make_context();
//       ...
//       point.check(wrong == 0);
//       return benches::Row().set("n_elem", n_elem).set("crit_ns", ...);
//     });
//   }
//   const std::vector<benches::Row> rows = sweep.run();
//
// Rows, statistics, traces and errors are those of the points in their order, whatever
// `kernbench run --jobs` is and whichever point ends first.
//
// A bench that has an output folder keeps each finished point there, in NAME.journal, until all its
// results are written: after an interruption the same command goes on from there (ADR-0054).

#pragma once

#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "benches/bench.h"
#include "benches/context_set.h"
#include "benches/point_outcome.h"
#include "benches/progress.h"
#include "benches/report.h"
#include "benches/sweep_journal.h"
#include "benches/team_sweep.h"

namespace kernbench::benches {

// What the function of a point is given.  It runs on a thread of its own beside other points, so it
// must not write to anything that it shares with them.
class PointContext {
 public:
  PointContext(const Bench& bench, ContextSet& contexts) : bench_(bench), contexts_(contexts) {}

  // For what the run was asked for: topology(), ccl(), seed(), settings().
  const Bench& bench() const { return bench_; }

  // As Bench::make_context().
  ContextSet::Context make_context();
  ContextSet::Context make_context(const Topology& topology, RuntimeOptions options);

  // If one has not passed, the run ends with exit code 1.
  void check(bool passed) { ok_ = ok_ && passed; }
  bool ok() const { return ok_; }

  // For long work outside a simulation.  Throws Error KB-S001 if the point is not wanted any more.
  void throw_if_interrupted() const;

 private:
  const Bench& bench_;
  ContextSet& contexts_;
  bool ok_ = true;
};

class Sweep {
 public:
  // Rows of a point, in the order in which the report has them.
  using PointFunction = std::function<std::vector<Row>(PointContext&)>;

  // `name` is unique in its bench, and part of a file's name.
  Sweep(Bench& bench, std::string name);
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  // A point.  `key` is for people, unique in its sweep, and tells it from all points that another
  // run of this bench with the same inputs could have.  `simulate` returns a Row or a vector of
  // them.
  template <class Function>
  void add(std::string key, Function simulate);

  // Simulates all points.  Returns their rows, which are in the bench's report then.
  // Other processes of the bench's team (process_team.h) simulate points too, and come to the same
  // rows.
  // Throws what the first point, in their order, that failed has thrown; earlier rows are in the
  // report.  Throws Error KB-S001 if the bench is interrupted; all rows that are finished are in
  // the report.  Throws IoError KB-I010 if the journal cannot be created, LimitError KB-L003 if
  // there is no room for so many threads.  REQUIRES: not called before
  std::vector<Row> run();

 private:
  struct Point {
    std::string key;
    PointFunction simulate;
    std::unique_ptr<ContextSet> contexts = {};  // from when it begins in this process
    bool is_restored = false;                   // what the journal had of it
    std::optional<PointOutcome> outcome = {};   // when it is finished
    std::exception_ptr failure = {};            // of its own: not that it was interrupted
  };

  void add_point(std::string key, PointFunction simulate);
  void restore();
  void simulate_all();
  void simulate_here();
  void show_progress_until_idle();
  // With other processes: hands points out to them, or takes them from the first one.
  void lead(ProcessTeam& team);
  std::optional<std::size_t> point_for_others();
  void ask_others();
  bool is_waiting_for_others() const;
  void tell_results(ProcessTeam& team);
  void serve(ProcessTeam& team);
  SweepState state() const;
  void work();
  Point* next_point();
  Point* next_fresh_point();  // REQUIRES: mutex_ is locked
  void simulate(Point& point);
  ContextSet& begin(Point& point);
  void finish(Point& point, PointOutcome outcome);
  void fail(Point& point, std::exception_ptr failure);
  std::vector<Row> settle();
  void enter(const Point& point);
  [[noreturn]] void throw_failure(const Point& point);
  [[noreturn]] void throw_interrupted();
  std::size_t index_of(const Point& point) const {
    return static_cast<std::size_t>(&point - points_.data());
  }

  Bench& bench_;
  const std::string name_;
  std::set<std::string> keys_;
  std::vector<Point> points_;
  bool has_run_ = false;
  std::optional<SweepJournal> journal_;
  std::size_t restored_ = 0;
  mutable std::mutex mutex_;  // of what follows, of the journal, and of what points become
  std::condition_variable all_idle_;
  std::size_t next_ = 0;  // point to begin
  std::size_t end_ = 0;   // points from here on are not wanted
  std::size_t working_ = 0;
  std::vector<std::size_t> given_back_;  // points that another process could not simulate
  std::optional<SweepLeader> others_;
  std::exception_ptr team_failure_;
};

template <class Function>
void Sweep::add(std::string key, Function simulate) {
  if constexpr (std::same_as<std::invoke_result_t<Function&, PointContext&>, Row>) {
    add_point(std::move(key), [simulate = std::move(simulate)](PointContext& point) mutable {
      return std::vector<Row>{simulate(point)};
    });
  } else {
    add_point(std::move(key), std::move(simulate));
  }
}

}  // namespace kernbench::benches
