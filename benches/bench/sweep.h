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
// results are written: after an interruption the same command goes on from there (ADR-0054).  With
// keep_journal() it stays (ADR-0195).

#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/row.h"
#include "sim_engine/base/function.h"

namespace kernbench::benches {

class ContextSet;
class SweepRun;

// The interface that the function of a point gets.  The function runs on its own thread at the same
// time as other points, so it must not write to anything that it shares with them.
class PointContext {
 public:
  PointContext(const Bench& bench, ContextSet& contexts) : bench_(bench), contexts_(contexts) {}

  // The bench, for the run's topology(), ccl(), seed() and settings().
  const Bench& bench() const { return bench_; }
  // What the point simulates with, for a point that is a run of a bench.
  ContextSet& contexts() const { return contexts_; }

  // Like Bench::make_context().
  CollectedContext make_context();
  CollectedContext make_context(const Topology& topology, RuntimeOptions options);

  // Records a check.  If any check has not passed, the run ends with exit code 1.
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
  // Returns the rows of a point, in the order of the report.
  using PointFunction = std::function<std::vector<Row>(PointContext&)>;

  // `name` is unique in its bench, and part of a file's name.
  Sweep(Bench& bench, std::string name);
  ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  // Adds a point.  `key` is readable, unique in its sweep, and different from the keys of all other
  // points that this bench could have in any run with the same inputs.  `simulate` returns a Row or
  // a vector of them.
  template <class Function>
  void add(std::string key, Function simulate);

  // Keeps the journal when the run has ended, as its saved results.  A later run with the same
  // inputs simulates all points again, unless it wants to `reuse` them.  Call it before run().
  void keep_journal(bool reuse);

  // Simulates all points, adds their rows to the bench's report, and returns them.  Other processes
  // of the bench's team (process_team.h) simulate points too, and get the same rows.  If points
  // fail, throws the error of the first one in order; the rows before it are in the report.  Throws
  // Error KB-S001 if the bench is interrupted; all finished rows are in the report.  Throws IoError
  // KB-I010 if the journal cannot be created, LimitError KB-L003 if the host lets no thread start.
  // REQUIRES: not called before
  std::vector<Row> run();

 private:
  void add_point(std::string key, PointFunction simulate);

  const std::unique_ptr<SweepRun> run_;
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
