// Runs a sweep: simulates its points on threads of this process and in other processes.

#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/context_set.h"
#include "benches/bench/point_outcome.h"
#include "benches/bench/progress.h"
#include "benches/bench/sweep_journal.h"
#include "benches/bench/team_sweep.h"

namespace boost::asio {
class io_context;
}

namespace kernbench::benches {

class BenchRun;

class SweepRun {
 public:
  SweepRun(Bench& bench, std::string name);
  SweepRun(const SweepRun&) = delete;
  SweepRun& operator=(const SweepRun&) = delete;

  void add_point(std::string key, Sweep::PointFunction simulate);
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
    std::unique_ptr<ContextSet> contexts = {};  // set when it begins in this process
    bool is_restored = false;                   // its outcome came from the journal
    std::optional<PointOutcome> outcome = {};   // set when it is finished
    std::exception_ptr failure = {};            // its own error, not an interruption
  };

  void open_journal();
  void restore();
  void take_known();
  void simulate_all();
  void simulate_here();
  // Serves this process's thread that waits: it draws, and asks other processes.
  void run_until_idle(boost::asio::io_context& loop);
  // With other processes: lead() hands points out to them, serve() takes points from the leader.
  void lead(ProcessTeam& team);
  std::optional<std::size_t> point_for_others();
  void ask_others();
  bool is_waiting_for_others() const;
  void tell_results(ProcessTeam& team);
  void serve(ProcessTeam& team);
  SweepState state() const;
  Point* next_point();
  Point* next_fresh_point();  // REQUIRES: mutex_ is locked
  void simulate(Point& point);
  bool simulate_in_other_orders(Point& point, std::vector<Row>& rows);
  ContextSet& begin(Point& point);
  void finish(Point& point, PointOutcome outcome);
  void fail(Point& point, std::exception_ptr failure);
  std::vector<Row> settle();
  void note_ties() const;
  void enter(const Point& point);
  [[noreturn]] void throw_failure(const Point& point);
  [[noreturn]] void throw_interrupted();
  std::size_t index_of(const Point& point) const {
    return static_cast<std::size_t>(&point - points_.data());
  }

  Bench& bench_;
  BenchRun& run_;
  const std::string name_;
  std::set<std::string> keys_;
  std::vector<Point> points_;
  bool has_run_ = false;
  bool keeps_journal_ = false;   // when the run has ended
  bool reuses_journal_ = false;  // of a run that has ended
  std::optional<SweepJournal> journal_;
  std::size_t restored_ = 0;
  std::size_t working_ = 0;   // threads of this process
  mutable std::mutex mutex_;  // guards the members below, the journal, and the points' outcomes
  std::size_t next_ = 0;      // the next point to begin
  std::size_t end_ = 0;       // points from here on are not wanted
  std::vector<std::size_t> given_back_;  // points that another process could not simulate
  std::optional<SweepLeader> others_;
  std::exception_ptr team_failure_;
};

}  // namespace kernbench::benches
