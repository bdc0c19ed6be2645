#include "benches/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstring>
#include <list>
#include <span>
#include <system_error>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::milliseconds kRedraw{100};

// One thread each: a pool whose second thread cannot be started never ends.
using Threads = std::list<asio::thread_pool>;

// So many, or as many as the host lets start.  Throws LimitError KB-L003 if that is none.
Threads start_threads(std::size_t count, Bench& bench) {
  Threads threads;
  try {
    while (threads.size() < count) threads.emplace_back(1);
  } catch (const std::system_error& error) {
    const std::string why = error.code().message();
    if (threads.empty()) throw LimitError("KB-L003", "cannot start a thread: " + why);
    bench.note("jobs", fmt::format("{} instead of {}: {}", threads.size(), count, why));
  }
  return threads;
}

}  // namespace

ContextSet::Context PointContext::make_context() {
  return make_context(bench_.topology(), {.ccl = bench_.ccl()});
}

ContextSet::Context PointContext::make_context(const Topology& topology, RuntimeOptions options) {
  throw_if_interrupted();
  if (options.replay_threads == 0) options.replay_threads = 1;  // the points take the cores
  return contexts_.make(topology, std::move(options));
}

void PointContext::throw_if_interrupted() const {
  if (contexts_.is_interrupted()) throw Error("KB-S001", ExitCode::interrupted, "interrupted");
}

Sweep::Sweep(Bench& bench, std::string name) : bench_(bench), name_(std::move(name)) {}

void Sweep::add_point(std::string key, PointFunction simulate) {
  KB_CHECK(keys_.insert(key).second, "the sweep '{}' has two points '{}'", name_, key);
  points_.push_back({.key = std::move(key), .simulate = std::move(simulate)});
}

std::vector<Row> Sweep::run() {
  KB_CHECK(!has_run_, "the sweep '{}' runs twice", name_);
  has_run_ = true;
  end_ = points_.size();
  if (!bench_.output_folder().empty()) restore();
  simulate_all();
  if (journal_ && journal_->failure() != 0) {
    bench_.note("journal", fmt::format("{} cannot be written: {}", journal_->path().string(),
                                       std::strerror(journal_->failure())));
  }
  return settle();
}

// A point that is not simulated has no trace, so with --trace all of them are.
void Sweep::restore() {
  const std::filesystem::path path = bench_.output_folder() / (name_ + ".journal");
  const bool is_new = std::ranges::find(bench_.journals_, path) == bench_.journals_.end();
  KB_CHECK(is_new, "the bench has two sweeps '{}'", name_);
  bench_.journals_.push_back(path);
  journal_.emplace(path, bench_.inputs_hash());
  if (const int damaged = journal_->damaged_count(); damaged > 0) {
    bench_.note("journal", fmt::format("{}: damaged; {} of its points {} not used", path.string(),
                                       damaged, damaged == 1 ? "is" : "are"));
  }
  if (bench_.wants_trace()) return;
  for (Point& point : points_) {
    if (const PointOutcome* outcome = journal_->find(point.key)) point.outcome = *outcome;
  }
  restored_ = static_cast<std::size_t>(
      std::ranges::count_if(points_, [](const Point& point) { return point.outcome.has_value(); }));
  if (restored_ == 0) return;
  bench_.note("resumed", fmt::format("{} of {} points of {} are taken from the interrupted run",
                                     restored_, points_.size(), name_));
}

void Sweep::simulate_all() {
  const std::size_t wanted =
      std::min(static_cast<std::size_t>(bench_.jobs()), points_.size() - restored_);
  if (wanted == 0) return;
  Threads threads = start_threads(wanted, bench_);
  working_ = threads.size();
  for (asio::thread_pool& thread : threads) asio::post(thread, [this] { work(); });
  show_progress_until_idle();
  for (asio::thread_pool& thread : threads) thread.join();
}

// Drawn outside the lock: a terminal may be stopped.
void Sweep::show_progress_until_idle() {
  Progress progress(name_, STDERR_FILENO);
  std::unique_lock lock(mutex_);
  while (!all_idle_.wait_for(lock, kRedraw, [this] { return working_ == 0; })) {
    const SweepState now = state();
    lock.unlock();
    progress.show(now);
    lock.lock();
  }
}

SweepState Sweep::state() const {
  SweepState state{.total = points_.size(), .restored = restored_, .finished = 0, .running = {}};
  for (const Point& point : points_) {
    if (point.outcome && point.contexts) ++state.finished;
    const bool runs = point.contexts && !point.outcome && !point.failure;
    if (runs && state.running.empty()) state.running = point.key;
  }
  return state;
}

void Sweep::work() {
  while (Point* point = next_point()) simulate(*point);
  const std::lock_guard lock(mutex_);
  if (--working_ == 0) all_idle_.notify_all();
}

Sweep::Point* Sweep::next_point() {
  const std::lock_guard lock(mutex_);
  while (next_ < end_ && points_[next_].outcome) ++next_;
  if (next_ >= end_ || bench_.is_interrupted()) return nullptr;
  return &points_[next_++];
}

void Sweep::simulate(Point& point) {
  try {
    PointContext context(bench_, begin(point));
    std::vector<Row> rows = point.simulate(context);
    KB_CHECK(point.contexts->all_ended(), "the point '{}' of the sweep '{}' keeps a context",
             point.key, name_);
    finish(point, {context.ok(), std::move(rows), point.contexts->statistics()});
  } catch (...) {
    fail(point, std::current_exception());
  }
}

ContextSet& Sweep::begin(Point& point) {
  const std::lock_guard lock(mutex_);
  point.contexts = std::make_unique<ContextSet>(bench_.contexts_);
  if (index_of(point) > end_) point.contexts->interrupt();
  return *point.contexts;
}

void Sweep::finish(Point& point, PointOutcome outcome) {
  const std::lock_guard lock(mutex_);
  point.outcome = std::move(outcome);
  if (journal_) journal_->append(point.key, *point.outcome);
}

// Points before this one have begun, and decide; those behind it do not matter any more.
void Sweep::fail(Point& point, std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (point.contexts && point.contexts->is_interrupted()) return;
  point.failure = std::move(failure);
  end_ = std::min(end_, index_of(point));
  for (std::size_t i = end_ + 1; i < next_; ++i) {
    if (points_[i].contexts) points_[i].contexts->interrupt();
  }
}

std::vector<Row> Sweep::settle() {
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
  return rows;
}

void Sweep::enter(const Point& point) {
  const PointOutcome& outcome = *point.outcome;
  bench_.rows_.insert(bench_.rows_.end(), outcome.rows.begin(), outcome.rows.end());
  bench_.ok_ = bench_.ok_ && outcome.ok;
  if (point.contexts) {
    bench_.contexts_.append(*point.contexts);
  } else {
    bench_.contexts_.append(outcome.systems);
  }
}

void Sweep::throw_failure(const Point& point) {
  if (point.contexts && point.contexts->all_ended()) bench_.contexts_.append(*point.contexts);
  bench_.note("failed", fmt::format("{}: {}", name_, point.key));
  std::rethrow_exception(point.failure);
}

void Sweep::throw_interrupted() {
  KB_CHECK(bench_.is_interrupted(), "the sweep '{}' has left out points", name_);
  const auto finished =
      std::ranges::count_if(points_, [](const Point& point) { return point.outcome.has_value(); });
  std::string text = fmt::format("interrupted: {} of {} points of {} are finished", finished,
                                 points_.size(), name_);
  if (journal_ && journal_->failure() == 0 && finished > 0) {
    text += fmt::format("\n  they are kept in '{}': the same command goes on from there",
                        journal_->path().string());
  }
  throw Error("KB-S001", ExitCode::interrupted, text);
}

}  // namespace kernbench::benches
