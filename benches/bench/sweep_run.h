// Runs a sweep: simulates its points in child processes, on threads of this process, and in
// processes of its team.  All its functions are for one thread but for finished_rows(), and for
// simulate(), which another thread may perform.

#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/context_set.h"
#include "benches/bench/point_outcome.h"
#include "benches/bench/point_workers.h"
#include "benches/bench/progress.h"
#include "benches/bench/sweep_journal.h"
#include "benches/bench/team_sweep.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches {

class BenchRun;

class SweepRun {
 public:
  SweepRun(Bench& bench, std::string name);
  SweepRun(const SweepRun&) = delete;
  SweepRun& operator=(const SweepRun&) = delete;

  void add_point(std::string key, Sweep::PointFunction simulate, Bytes memory);
  void limit_memory(Bytes all) { memory_ = all; }
  void keep_journal(bool reuse) {
    keeps_journal_ = true;
    reuses_journal_ = reuse;
  }
  std::vector<Row> run();
  // May be called from any thread.  Returns the rows of the points that are finished.
  std::vector<Row> finished_rows() const;

 private:
  struct Point {
    std::string key;
    Sweep::PointFunction simulate;
    Bytes memory = 0;
    std::unique_ptr<ContextSet> contexts = {};  // set when it begins in this process
    bool is_restored = false;                   // its outcome came from a journal
    bool is_begun = false;
    bool has_failed_elsewhere = false;         // this process has yet to simulate it itself
    std::optional<PointOutcome> outcome = {};  // set when it is finished
    std::exception_ptr failure = {};           // its own error, not an interruption
    std::string crash = {};                    // what has ended its process
  };

  void open_journal();
  void restore();
  void restore(Point& point, const PointOutcome& outcome);
  void take_from_journals();
  void take_known();
  void simulate_all();
  void simulate_here();
  void hand_out(PointWorkers& workers);
  // With other processes: lead() hands points out to them, serve() takes points from the leader.
  void lead(ProcessTeam& team);
  std::optional<std::size_t> point_for_others();
  bool is_waiting_for_others() const;
  void tell_results(ProcessTeam& team);
  void serve(ProcessTeam& team);
  PointWorkers::Limits limits() const;
  PointCalls calls();
  SweepState state() const;
  bool is_of_shard(const Point& point) const;
  Point* next_point();
  void give_back(Point& point);
  std::vector<Row> simulate_folded_first(Point& point, PointContext& context);
  PointEnd simulate(Point& point);
  bool simulate_in_other_orders(Point& point, std::vector<Row>& rows);
  std::function<PointEnd()> begin(Point& point);
  void take_end(Point& point, PointEnd end);
  void finish(Point& point, PointOutcome outcome);
  void update_end();
  std::vector<Row> settle();
  void note_ties() const;
  void enter(const Point& point);
  std::size_t finished_count() const;
  [[noreturn]] void throw_failure(const Point& point);
  [[noreturn]] void throw_interrupted();
  std::string what_is_kept() const;
  [[noreturn]] void throw_crash(const Point& first) const;
  [[noreturn]] void throw_shard_ended() const;
  std::size_t index_of(const Point& point) const {
    return static_cast<std::size_t>(&point - points_.data());
  }

  Bench& bench_;
  BenchRun& run_;
  const std::string name_;
  std::set<std::string> keys_;
  std::vector<Point> points_;
  Bytes memory_ = 0;  // of the points that run at once
  bool has_run_ = false;
  bool keeps_journal_ = false;   // when the run has ended
  bool reuses_journal_ = false;  // of a run that has ended
  std::optional<SweepJournal> journal_;
  std::size_t restored_ = 0;
  mutable std::mutex mutex_;  // guards the points' outcomes, for finished_rows()
  std::size_t next_ = 0;      // points before it are begun, finished, or of another shard
  std::size_t end_ = 0;       // points from here on are not wanted
  std::optional<SweepLeader> others_;
};

}  // namespace kernbench::benches
