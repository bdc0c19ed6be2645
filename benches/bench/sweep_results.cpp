// A sweep takes finished points from journals, and leaves rows, statistics and its error.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "benches/bench/bench_run.h"
#include "benches/bench/context_set.h"
#include "benches/bench/sweep_run.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

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

// Takes finished points from the journal and from those of others, except with --trace or
// --explain: a restored point would have recorded nothing.  A run that others have simulated prints
// what it would print if it had simulated all.
void SweepRun::restore() {
  open_journal();
  if (run_.request.recording.is_on()) return;
  for (Point& point : points_) {
    if (const PointOutcome* const outcome = journal_->find(point.key)) restore(point, *outcome);
  }
  if (!run_.request.journals.empty()) return take_from_journals();
  if (restored_ == 0 && !reuses_journal_) return;
  bench_.note(
      reuses_journal_ ? "saved" : "resumed",
      fmt::format("{} of {} points of {} are taken from {}", restored_, points_.size(), name_,
                  reuses_journal_ ? journal_->path().string() : "the interrupted run"));
}

void SweepRun::restore(Point& point, const PointOutcome& outcome) {
  point.outcome = outcome;
  point.is_restored = true;
  ++restored_;
}

void SweepRun::take_from_journals() {
  for (const std::filesystem::path& folder : run_.request.journals) {
    const std::filesystem::path path = folder / journal_->path().filename();
    if (!std::filesystem::exists(path)) continue;
    const auto found = SweepJournal::read(path, run_.inputs_hash());
    for (Point& point : points_) {
      const auto one = found.find(point.key);
      if (one == found.end() || point.outcome) continue;
      restore(point, one->second);
      journal_->append(point.key, one->second);
    }
    if (found.empty()) {
      bench_.note("journal", fmt::format("{} is of another build or of other inputs: not used",
                                         path.string()));
    }
  }
}

void SweepRun::take_known() {
  for (Point& point : points_) {
    const auto known = std::ranges::find_if(run_.request.known, [&](const FinishedPoint& one) {
      return one.sweep == name_ && one.key == point.key;
    });
    if (known != run_.request.known.end() && !point.outcome) restore(point, known->outcome);
  }
}

std::vector<Row> SweepRun::settle() {
  const auto missing = std::ranges::find_if(
      points_, [&](const Point& point) { return !point.outcome && is_of_shard(point); });
  const bool failed = missing != points_.end() && missing->failure;
  const std::size_t wanted = run_.is_interrupted() && !failed ? points_.size() : end_;
  std::vector<Row> rows;
  for (const Point& point : std::span(points_).first(wanted)) {
    if (!point.outcome) continue;
    enter(point);
    rows.insert(rows.end(), point.outcome->rows.begin(), point.outcome->rows.end());
  }
  if (failed) throw_failure(*missing);
  if (missing != points_.end()) {
    run_.is_interrupted() ? throw_interrupted() : throw_crash(*missing);
  }
  if (finished_count() < points_.size()) throw_shard_ended();
  if (run_.tie_orders() > 0) note_ties();
  return rows;
}

std::size_t SweepRun::finished_count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(points_, [](const Point& point) { return point.outcome.has_value(); }));
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
  run_.contexts.take_energy();  // the point's rows have it
}

void SweepRun::throw_failure(const Point& point) {
  if (point.contexts && point.contexts->all_ended()) run_.contexts.append(*point.contexts);
  bench_.note("failed", fmt::format("{}: {}", name_, point.key));
  std::rethrow_exception(point.failure);
}

void SweepRun::throw_interrupted() {
  std::string text = fmt::format("interrupted: {} of {} points of {} are finished",
                                 finished_count(), points_.size(), name_);
  if (others_) {
    for (const auto& [point, process] : others_->given()) {
      text += fmt::format("\n  process {} had not finished '{}'", process, points_[point].key);
    }
  }
  throw Error("KB-S001", run_.contexts.reason(), text + what_is_kept());
}

// Where the finished points are, for the user of a run that has left out some.
std::string SweepRun::what_is_kept() const {
  if (finished_count() == 0) return "";
  if (journal_ && journal_->failure() == 0) {
    return fmt::format("\n  they are kept in '{}': the same command goes on from there",
                       journal_->path().string());
  }
  if (journal_ || !run_.leads()) return "";
  return "\n  with --out DIR a run keeps them, and the same command goes on from there";
}

// Other points have gone on.
void SweepRun::throw_crash(const Point& first) const {
  KB_CHECK(!first.crash.empty(), "the sweep '{}' has left out points", name_);
  std::string text = fmt::format("the point '{}' of the sweep '{}' was lost: its process was {}",
                                 first.key, name_, first.crash);
  for (const Point& point : points_) {
    if (point.crash.empty() || &point == &first) continue;
    text += fmt::format("\n  so was '{}': {}", point.key, point.crash);
  }
  text += "\n  with --jobs 1 it runs in this process, for a debugger";
  text += fmt::format("\n  {} of {} points are finished", finished_count(), points_.size());
  throw Error("KB-B004", ExitCode::worker_failed, text + what_is_kept());
}

void SweepRun::throw_shard_ended() const {
  const SweepShard& shard = run_.request.shard;
  throw ShardEnded{fmt::format(
      "{}/{}: {} of {} points of {} are in {}; when all shards are: the same command with "
      "--journals and their folders instead of --shard",
      shard.number, shard.count, finished_count(), points_.size(), name_,
      journal_->path().string())};
}

}  // namespace kernbench::benches
