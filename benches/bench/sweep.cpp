#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>

#include "benches/bench/bench.h"
#include "benches/bench/bench_run.h"
#include "benches/bench/context_set.h"
#include "benches/bench/process_team.h"
#include "benches/bench/sweep_run.h"
#include "benches/bench/worker_threads.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::milliseconds kAskOthers{2};

}  // namespace

CollectedContext PointContext::make_context() {
  return make_context(bench_.topology(), {.ccl = bench_.ccl()});
}

CollectedContext PointContext::make_context(const Topology& topology, RuntimeOptions options) {
  throw_if_interrupted();
  if (options.evaluation_threads == 0) options.evaluation_threads = 1;  // the points take the cores
  return contexts_.make(topology, std::move(options));
}

void PointContext::throw_if_interrupted() const {
  if (contexts_.is_interrupted()) throw Error("KB-S001", contexts_.reason(), "interrupted");
}

Sweep::Sweep(Bench& bench, std::string name)
    : run_(std::make_unique<SweepRun>(bench, std::move(name))) {}

Sweep::~Sweep() = default;

void Sweep::add_point(std::string key, PointFunction simulate) {
  run_->add_point(std::move(key), std::move(simulate));
}

void Sweep::keep_journal(bool reuse) {
  run_->keep_journal(reuse);
}

std::vector<Row> Sweep::run() {
  return run_->run();
}

SweepRun::SweepRun(Bench& bench, std::string name)
    : bench_(bench), run_(bench.run()), name_(std::move(name)) {}

void SweepRun::add_point(std::string key, Sweep::PointFunction simulate) {
  KB_CHECK(keys_.insert(key).second, "the sweep '{}' has two points '{}'", name_, key);
  points_.push_back({.key = std::move(key), .simulate = std::move(simulate)});
}

std::vector<Row> SweepRun::run() {
  KB_CHECK(!has_run_, "the sweep '{}' runs twice", name_);
  has_run_ = true;
  end_ = points_.size();
  run_.console.open();
  if (run_.leads() && !run_.output_folder.empty()) restore();
  take_known();
  run_.set_sweep(this);
  try {
    simulate_all();
  } catch (...) {
    run_.set_sweep(nullptr);
    throw;
  }
  run_.set_sweep(nullptr);
  if (journal_ && journal_->failure() != 0) {
    bench_.note("journal", fmt::format("{} cannot be written: {}", journal_->path().string(),
                                       std::strerror(journal_->failure())));
  }
  return settle();
}

// A journal with all points is that of a run that has ended: it starts anew unless it is wanted.
void SweepRun::open_journal() {
  const std::filesystem::path path = run_.output_folder / (name_ + ".journal");
  KB_CHECK(run_.add_journal(path, keeps_journal_), "the bench has two sweeps '{}'", name_);
  journal_.emplace(path, run_.inputs_hash());
  if (const int damaged = journal_->damaged_count(); damaged > 0) {
    bench_.note("journal", fmt::format("{}: damaged; {} of its points {} not used", path.string(),
                                       damaged, damaged == 1 ? "is" : "are"));
  }
  const bool has_ended = std::ranges::all_of(
      points_, [&](const Point& point) { return journal_->find(point.key) != nullptr; });
  if (!keeps_journal_ || !has_ended || (reuses_journal_ && !run_.request.recording.is_on())) return;
  journal_.reset();
  SweepJournal::forget(path, run_.inputs_hash());
  journal_.emplace(path, run_.inputs_hash());
}

// Takes finished points from the journal, except with --trace or --explain: a restored point would
// have recorded nothing.
void SweepRun::restore() {
  open_journal();
  if (run_.request.recording.is_on()) return;
  for (Point& point : points_) {
    const PointOutcome* const outcome = journal_->find(point.key);
    if (outcome == nullptr) continue;
    point.outcome = *outcome;
    point.is_restored = true;
    ++restored_;
  }
  if (restored_ == 0 && !reuses_journal_) return;
  bench_.note(
      reuses_journal_ ? "saved" : "resumed",
      fmt::format("{} of {} points of {} are taken from {}", restored_, points_.size(), name_,
                  reuses_journal_ ? journal_->path().string() : "the interrupted run"));
}

void SweepRun::take_known() {
  for (Point& point : points_) {
    const auto known = std::ranges::find_if(run_.request.known, [&](const FinishedPoint& one) {
      return one.sweep == name_ && one.key == point.key;
    });
    if (known == run_.request.known.end() || point.outcome) continue;
    point.outcome = known->outcome;
    point.is_restored = true;
    ++restored_;
  }
}

void SweepRun::simulate_all() {
  ProcessTeam* const team = run_.request.team;
  if (team == nullptr) return simulate_here();
  team->leads() ? lead(*team) : serve(*team);
}

void SweepRun::simulate_here() {
  const std::size_t wanted =
      std::min(static_cast<std::size_t>(run_.request.jobs), points_.size() - restored_);
  if (wanted == 0) return;
  asio::io_context loop;  // this thread's
  WorkerThreads threads(wanted);
  working_ = threads.size();
  if (working_ < wanted) {
    bench_.note("jobs",
                fmt::format("{} instead of {}: {}", working_, wanted, threads.why_not_more()));
  }
  for (std::size_t i = 0; i < threads.size(); ++i) {
    threads.post([this, &loop] {
      while (Point* point = next_point()) simulate(*point);
      asio::post(loop, [this] { --working_; });
    });
  }
  run_until_idle(loop);
}

void SweepRun::lead(ProcessTeam& team) {
  others_.emplace(
      team, TeamSweep{name_, run_.inputs_hash()},
      SweepLeader::Points{
          .take = [this] { return point_for_others(); },
          .finish = [this](std::size_t point,
                           PointOutcome outcome) { finish(points_.at(point), std::move(outcome)); },
          .give_back =
              [this](std::size_t point) {
                const std::lock_guard lock(mutex_);
                given_back_.push_back(point);
              },
          .lost =
              [this](int process, const std::string& reason) {
                bench_.note(fmt::format("process {}", process),
                            fmt::format("has left: {}; process 0 goes on with its "
                                        "points",
                                        reason));
              }});
  do {
    simulate_here();
  } while (!given_back_.empty() && !run_.is_interrupted() && team_failure_ == nullptr);
  if (team_failure_ != nullptr) std::rethrow_exception(team_failure_);
  tell_results(team);
}

// The next point for another process; none with --trace or --explain, which cover one process.
std::optional<std::size_t> SweepRun::point_for_others() {
  const std::lock_guard lock(mutex_);
  if (run_.request.recording.is_on() || run_.is_interrupted()) return std::nullopt;
  const Point* const point = next_fresh_point();
  return point == nullptr ? std::nullopt : std::optional(index_of(*point));
}

void SweepRun::ask_others() {
  try {
    others_->poll();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    team_failure_ = std::current_exception();
    end_ = 0;
    for (const Point& point : points_) {
      if (point.contexts) point.contexts->interrupt();
    }
  }
}

bool SweepRun::is_waiting_for_others() const {
  const std::lock_guard lock(mutex_);
  if (!others_ || team_failure_ != nullptr || !given_back_.empty()) return false;
  const bool has_wanted = !others_->given().empty() && others_->given().begin()->first < end_;
  return has_wanted && !run_.is_interrupted();
}

void SweepRun::tell_results(ProcessTeam& team) {
  std::vector<std::pair<std::size_t, const PointOutcome*>> outcomes;
  for (const Point& point : points_) {
    if (!point.outcome) return team.dismiss_all();  // this process reports it; the run ends
    outcomes.emplace_back(index_of(point), &*point.outcome);
  }
  others_->end(outcomes);
}

void SweepRun::serve(ProcessTeam& team) {
  SweepMember(team, TeamSweep{name_, run_.inputs_hash()},
              {.simulate =
                   [this](std::size_t point) {
                     simulate(points_.at(point));
                     return points_[point].outcome;
                   },
               .finish =
                   [this](std::size_t point, PointOutcome outcome) {
                     points_.at(point).contexts.reset();  // the leader's results count
                     finish(points_[point], std::move(outcome));
                   },
               .is_interrupted = [this] { return run_.is_interrupted(); },
               .interrupt = [this] { run_.interrupt(); }})
      .serve(static_cast<std::size_t>(run_.request.jobs));
}

// Draws outside the lock, since a stopped terminal may block.
void SweepRun::run_until_idle(asio::io_context& loop) {
  Progress progress(name_, STDERR_FILENO);
  const Every redraw(loop, kRedraw, [&] {
    if (run_.request.shows_progress) progress.show(state());
  });
  std::optional<Every> polling;
  if (others_) polling.emplace(loop, kAskOthers, [this] { ask_others(); });
  while (working_ > 0 || is_waiting_for_others()) loop.run_one();
}

SweepState SweepRun::state() const {
  const std::lock_guard lock(mutex_);
  SweepState state{.total = points_.size(), .restored = restored_, .finished = 0, .running = {}};
  for (const Point& point : points_) {
    if (point.outcome && !point.is_restored) ++state.finished;
    const bool runs = point.contexts && !point.outcome && !point.failure;
    if (runs && state.running.empty()) state.running = point.key;
  }
  return state;
}

SweepRun::Point* SweepRun::next_point() {
  const std::lock_guard lock(mutex_);
  if (run_.is_interrupted()) return nullptr;
  while (!given_back_.empty()) {
    Point& point = points_[given_back_.back()];
    given_back_.pop_back();
    if (index_of(point) < end_) return &point;
  }
  return next_fresh_point();
}

SweepRun::Point* SweepRun::next_fresh_point() {
  while (next_ < end_ && points_[next_].outcome) ++next_;
  return next_ < end_ ? &points_[next_++] : nullptr;
}

void SweepRun::simulate(Point& point) {
  try {
    PointContext context(bench_, begin(point));
    std::vector<Row> rows = point.simulate(context);
    if (index_of(point) == 0 && run_.request.check_first) run_.request.check_first(rows);
    KB_CHECK(point.contexts->all_ended(), "the point '{}' of the sweep '{}' keeps a context",
             point.key, name_);
    const bool ok = context.ok() && simulate_in_other_orders(point, rows);
    finish(point, {ok, std::move(rows), point.contexts->statistics()});
  } catch (...) {
    fail(point, std::current_exception());
  }
}

ContextSet& SweepRun::begin(Point& point) {
  const std::lock_guard lock(mutex_);
  point.contexts = std::make_unique<ContextSet>(run_.contexts);
  if (index_of(point) > end_) point.contexts->interrupt();
  return *point.contexts;
}

void SweepRun::finish(Point& point, PointOutcome outcome) {
  const std::lock_guard lock(mutex_);
  point.outcome = std::move(outcome);
  if (journal_) journal_->append(point.key, *point.outcome);
}

// Earlier points have begun and may still decide the error; points behind this one are no longer
// wanted.
void SweepRun::fail(Point& point, std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (point.contexts && point.contexts->is_interrupted()) return;
  point.failure = std::move(failure);
  end_ = std::min(end_, index_of(point));
  for (std::size_t i = end_ + 1; i < next_; ++i) {
    if (points_[i].contexts) points_[i].contexts->interrupt();
  }
}

std::vector<Row> SweepRun::settle() {
  const auto missing =
      std::ranges::find_if(points_, [](const Point& point) { return !point.outcome; });
  const bool failed = missing != points_.end() && missing->failure;
  std::vector<Row> rows;
  for (const Point& point : std::span(points_.begin(), failed ? missing : points_.end())) {
    if (!point.outcome) continue;
    enter(point);
    rows.insert(rows.end(), point.outcome->rows.begin(), point.outcome->rows.end());
  }
  if (failed) throw_failure(*missing);
  if (missing != points_.end()) throw_interrupted();
  if (run_.tie_orders() > 0) note_ties();
  return rows;
}

std::vector<Row> SweepRun::finished_rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<Row> rows;
  for (const Point& point : points_) {
    if (!point.outcome) continue;
    rows.insert(rows.end(), point.outcome->rows.begin(), point.outcome->rows.end());
  }
  return rows;
}

void SweepRun::enter(const Point& point) {
  const PointOutcome& outcome = *point.outcome;
  run_.add_rows(outcome.rows, outcome.ok,
                fmt::format("{}: '{}' {}", name_, point.key, describe_fault(outcome)));
  if (run_.request.recording.profile) {
    run_.add_point({name_, point.key, outcome, run_.contexts.statistics().size()});
  }
  if (point.contexts) {
    run_.contexts.append(*point.contexts);
  } else {
    run_.contexts.append(outcome.systems);
  }
}

void SweepRun::throw_failure(const Point& point) {
  if (point.contexts && point.contexts->all_ended()) run_.contexts.append(*point.contexts);
  bench_.note("failed", fmt::format("{}: {}", name_, point.key));
  std::rethrow_exception(point.failure);
}

void SweepRun::throw_interrupted() {
  KB_CHECK(run_.is_interrupted(), "the sweep '{}' has left out points", name_);
  const auto finished =
      std::ranges::count_if(points_, [](const Point& point) { return point.outcome.has_value(); });
  std::string text = fmt::format("interrupted: {} of {} points of {} are finished", finished,
                                 points_.size(), name_);
  if (others_) {
    for (const auto& [point, process] : others_->given()) {
      text += fmt::format("\n  process {} had not finished '{}'", process, points_[point].key);
    }
  }
  if (journal_ && journal_->failure() == 0 && finished > 0) {
    text += fmt::format("\n  they are kept in '{}': the same command goes on from there",
                        journal_->path().string());
  } else if (!journal_ && run_.leads() && finished > 0) {
    text += "\n  with --out DIR a run keeps them, and the same command goes on from there";
  }
  throw Error("KB-S001", run_.contexts.reason(), text);
}

}  // namespace kernbench::benches
