#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "benches/bench/bench.h"
#include "benches/bench/bench_run.h"
#include "benches/bench/context_set.h"
#include "benches/bench/energy_cells.h"
#include "benches/bench/every.h"
#include "benches/bench/process_team.h"
#include "benches/bench/sweep_run.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace asio = boost::asio;

namespace {

// True if ranks have proved to be unlike: they say so, or wait for what another would have done.
bool are_unlike(std::string_view error) {
  return error.find("KB-C026") != std::string_view::npos ||
         error.find("KB-D") != std::string_view::npos;
}

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::milliseconds kAskOthers{2};

// Rows of one system share its energy, which the first one has unless the point has divided it.
void add_energy_to_first(std::span<Row> rows, ContextSet& contexts) {
  const bool has_energy =
      std::ranges::any_of(rows, [](const Row& row) { return row.find(kEnergyColumn) != nullptr; });
  if (!rows.empty() && !has_energy) add_energy(rows.front(), contexts);
}

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

void Sweep::add_point(std::string key, PointFunction simulate, Bytes memory) {
  run_->add_point(std::move(key), std::move(simulate), memory);
}

void Sweep::limit_memory(Bytes all) {
  run_->limit_memory(all);
}

void Sweep::keep_journal(bool reuse) {
  run_->keep_journal(reuse);
}

std::vector<Row> Sweep::run() {
  return run_->run();
}

SweepRun::SweepRun(Bench& bench, std::string name)
    : bench_(bench), run_(bench.run()), name_(std::move(name)) {}

void SweepRun::add_point(std::string key, Sweep::PointFunction simulate, Bytes memory) {
  KB_CHECK(keys_.insert(key).second, "the sweep '{}' has two points '{}'", name_, key);
  points_.push_back({.key = std::move(key), .simulate = std::move(simulate), .memory = memory});
}

std::vector<Row> SweepRun::run() {
  KB_CHECK(!has_run_, "the sweep '{}' runs twice", name_);
  has_run_ = true;
  run_.console.open();
  if (run_.leads() && !run_.output_folder.empty()) restore();
  take_known();
  update_end();
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

void SweepRun::simulate_all() {
  ProcessTeam* const team = run_.request.team;
  if (team == nullptr) return simulate_here();
  team->leads() ? lead(*team) : serve(*team);
}

// Points that record something stay in this process, which writes what they have recorded.
PointWorkers::Limits SweepRun::limits() const {
  const int jobs = run_.request.jobs;
  return {.count = static_cast<std::size_t>(jobs),
          .memory = memory_,
          .has_processes = jobs > 1 && points_.size() > 1 && !run_.request.recording.is_on()};
}

PointCalls SweepRun::calls() {
  return {
      .begin = [this](std::size_t point) { return begin(points_.at(point)); },
      .end = [this](std::size_t point,
                    PointEnd end) { take_end(points_.at(point), std::move(end)); },
      .interrupt = [this](std::size_t point) { points_.at(point).contexts->interrupt(); },
      .memory = [this](std::size_t point) { return points_.at(point).memory; },
  };
}

void SweepRun::simulate_here() {
  asio::io_context loop;
  PointWorkers workers(loop, limits(), calls());
  Progress progress(name_, STDERR_FILENO);
  const Every redraw(loop, kRedraw, [&] {
    if (run_.request.shows_progress) progress.show(state());
  });
  std::optional<Every> polling;
  if (others_) polling.emplace(loop, kAskOthers, [this] { others_->poll(); });
  hand_out(workers);
  while (!workers.is_idle() || is_waiting_for_others()) {
    loop.run_one();
    workers.call_off_from(run_.is_interrupted() ? 0 : end_);
    hand_out(workers);
  }
}

// A point that has failed elsewhere waits until all that run have ended: they come before it.
void SweepRun::hand_out(PointWorkers& workers) {
  const std::size_t wanted = workers.count();
  while (Point* const point = next_point()) {
    const bool waits = point->has_failed_elsewhere && !workers.is_idle();
    if (waits || !workers.has_room(index_of(*point))) break;
    point->is_begun = workers.start(index_of(*point), point->has_failed_elsewhere);
    if (workers.count() == wanted) continue;
    bench_.note("jobs", fmt::format("{} instead of {}: {}", workers.count(), wanted,
                                    workers.why_not_more()));
    break;
  }
}

void SweepRun::lead(ProcessTeam& team) {
  others_.emplace(
      team, TeamSweep{name_, run_.inputs_hash()},
      SweepLeader::Points{
          .take = [this] { return point_for_others(); },
          .end = [this](std::size_t point,
                        PointEnd end) { take_end(points_.at(point), std::move(end)); },
          .give_back = [this](std::size_t point) { give_back(points_.at(point)); },
          .lost =
              [this](int process, const std::string& reason) {
                bench_.note(fmt::format("process {}", process),
                            fmt::format("has left: {}; process 0 goes on with its points", reason));
              }});
  simulate_here();
  tell_results(team);
}

// The next point for another process; none with --trace or --explain, which cover one process.
std::optional<std::size_t> SweepRun::point_for_others() {
  if (run_.request.recording.is_on()) return std::nullopt;
  Point* const point = next_point();
  if (point == nullptr || point->has_failed_elsewhere) return std::nullopt;
  point->is_begun = true;
  return index_of(*point);
}

bool SweepRun::is_waiting_for_others() const {
  if (!others_ || run_.is_interrupted()) return false;
  return !others_->given().empty() && others_->given().begin()->first < end_;
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
              {.simulated = calls(),
               .finish =
                   [this](std::size_t point, PointOutcome outcome) {
                     points_.at(point).contexts.reset();  // the leader's results count
                     finish(points_[point], std::move(outcome));
                   },
               .is_interrupted = [this] { return run_.is_interrupted(); }})
      .serve(limits());
}

SweepState SweepRun::state() const {
  SweepState state{.total = points_.size(), .restored = restored_, .finished = 0, .running = {}};
  for (const Point& point : points_) {
    if (point.outcome && !point.is_restored) ++state.finished;
    const bool runs = point.is_begun && !point.outcome && !point.failure && point.crash.empty();
    if (runs && state.running.empty()) state.running = point.key;
  }
  return state;
}

bool SweepRun::is_of_shard(const Point& point) const {
  const SweepShard& shard = run_.request.shard;
  return index_of(point) % shard.count == shard.number - 1;
}

// The first point that is wanted and that nobody has begun.
SweepRun::Point* SweepRun::next_point() {
  if (run_.is_interrupted()) return nullptr;
  const auto is_free = [&](const Point& point) {
    return !point.outcome && !point.is_begun && is_of_shard(point);
  };
  while (next_ < end_ && !is_free(points_[next_])) ++next_;
  return next_ < end_ ? &points_[next_] : nullptr;
}

void SweepRun::give_back(Point& point) {
  point.is_begun = false;
  next_ = std::min(next_, index_of(point));
}

std::function<PointEnd()> SweepRun::begin(Point& point) {
  point.contexts = std::make_unique<ContextSet>(run_.contexts);
  point.contexts->let_ranks_fold(run_.request.folds);
  return [this, &point] { return simulate(point); };
}

// One rank stands for others where a context lets it, unless they prove to be unlike.
std::vector<Row> SweepRun::simulate_folded_first(Point& point, PointContext& context) {
  try {
    return point.simulate(context);
  } catch (const Error& error) {
    const bool is_wanted = !point.contexts->is_interrupted() && are_unlike(error.what());
    if (!is_wanted || !point.contexts->begin_anew_less_folded(error.what())) throw;
  }
  return simulate_folded_first(point, context);
}

PointEnd SweepRun::simulate(Point& point) {
  try {
    PointContext context(bench_, *point.contexts);
    std::vector<Row> rows = simulate_folded_first(point, context);
    add_energy_to_first(rows, *point.contexts);
    if (index_of(point) == 0 && run_.request.check_first) run_.request.check_first(rows);
    KB_CHECK(point.contexts->all_ended(), "the point '{}' of the sweep '{}' keeps a context",
             point.key, name_);
    const bool ok = context.ok() && simulate_in_other_orders(point, rows);
    return {.outcome = PointOutcome{ok, std::move(rows), point.contexts->statistics()}};
  } catch (...) {
    if (point.contexts->is_interrupted()) return {};
    return {.failure = std::current_exception()};
  }
}

void SweepRun::take_end(Point& point, PointEnd end) {
  if (end.outcome) {
    finish(point, std::move(*end.outcome));
    if (std::exchange(point.has_failed_elsewhere, false)) update_end();
    return;
  }
  const bool is_wanted = index_of(point) < end_ && !run_.is_interrupted();
  point.failure = std::move(end.failure);
  point.crash = std::move(end.crash);
  const bool has_own_end = point.failure != nullptr || !point.crash.empty();
  if (!has_own_end) give_back(point);
  point.has_failed_elsewhere = !has_own_end && is_wanted;
  update_end();
}

void SweepRun::finish(Point& point, PointOutcome outcome) {
  const std::lock_guard lock(mutex_);
  point.outcome = std::move(outcome);
  if (journal_) journal_->append(point.key, *point.outcome);
}

// Points behind one that has failed are not wanted.  Earlier ones have begun and may still decide
// the error.
void SweepRun::update_end() {
  const auto failed = std::ranges::find_if(points_, [](const Point& point) {
    return point.failure != nullptr || point.has_failed_elsewhere;
  });
  end_ = static_cast<std::size_t>(failed - points_.begin());
  if (failed != points_.end() && failed->has_failed_elsewhere) ++end_;
}

}  // namespace kernbench::benches
