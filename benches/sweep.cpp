#include "benches/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <span>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace asio = boost::asio;

ContextSet::Context PointContext::make_context() {
  return make_context(bench_.topology(), {.ccl = bench_.ccl()});
}

ContextSet::Context PointContext::make_context(const Topology& topology, RuntimeOptions options) {
  throw_if_interrupted();
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
  simulate_all();
  return settle();
}

void Sweep::simulate_all() {
  working_ = std::min(static_cast<std::size_t>(bench_.jobs()), points_.size());
  if (working_ == 0) return;
  asio::thread_pool threads(working_);
  for (std::size_t i = working_; i > 0; --i) asio::post(threads, [this] { work(); });
  {
    std::unique_lock lock(mutex_);
    all_idle_.wait(lock, [this] { return working_ == 0; });
  }
  threads.join();
}

void Sweep::work() {
  while (Point* point = next_point()) simulate(*point);
  const std::lock_guard lock(mutex_);
  if (--working_ == 0) all_idle_.notify_all();
}

Sweep::Point* Sweep::next_point() {
  const std::lock_guard lock(mutex_);
  if (next_ >= end_ || bench_.is_interrupted()) return nullptr;
  return &points_[next_++];
}

void Sweep::simulate(Point& point) {
  try {
    PointContext context(bench_, begin(point));
    std::vector<Row> rows = point.simulate(context);
    KB_CHECK(point.contexts->all_ended(), "the point '{}' of the sweep '{}' keeps a context",
             point.key, name_);
    finish(point, context.ok(), std::move(rows));
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

void Sweep::finish(Point& point, bool ok, std::vector<Row> rows) {
  const std::lock_guard lock(mutex_);
  point.ok = ok;
  point.rows = std::move(rows);
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
      std::ranges::find_if(points_, [](const Point& point) { return !point.rows; });
  const bool failed = missing != points_.end() && missing->failure;
  std::vector<Row> rows;
  for (const Point& point : std::span(points_.begin(), failed ? missing : points_.end())) {
    if (!point.rows) continue;
    enter(point);
    rows.insert(rows.end(), point.rows->begin(), point.rows->end());
  }
  if (failed) throw_failure(*missing);
  if (missing != points_.end()) throw_interrupted();
  return rows;
}

void Sweep::enter(const Point& point) {
  bench_.rows_.insert(bench_.rows_.end(), point.rows->begin(), point.rows->end());
  bench_.ok_ = bench_.ok_ && point.ok;
  bench_.contexts_.append(*point.contexts);
}

void Sweep::throw_failure(const Point& point) {
  if (point.contexts && point.contexts->all_ended()) bench_.contexts_.append(*point.contexts);
  bench_.note("failed", fmt::format("{}: {}", name_, point.key));
  std::rethrow_exception(point.failure);
}

void Sweep::throw_interrupted() {
  KB_CHECK(bench_.is_interrupted(), "the sweep '{}' has left out points", name_);
  const auto finished = std::ranges::count_if(points_, [](const Point& p) { return bool(p.rows); });
  throw Error("KB-S001", ExitCode::interrupted,
              fmt::format("interrupted: {} of {} points of {} are finished", finished,
                          points_.size(), name_));
}

}  // namespace kernbench::benches
