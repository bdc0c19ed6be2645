#include "runtime/guards/process_watch.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/guards/watchdog.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/unfinished_files.h"

namespace kernbench::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kStackBytes = 512 * 1024;  // independent of `ulimit -s`

void print_error(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

// `timeout` and similar tools signal a process and then its group, so that one request arrives
// twice.
constexpr std::int64_t kSameSignal_ns = 200'000'000;

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

std::string_view name_of_signal(int signal) {
  switch (signal) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "SIGHUP";
  }
}

}  // namespace

ProcessWatch& ProcessWatch::instance() {
  // It is never destroyed, because its thread and handlers run until the process ends.
  static auto* const watch = new ProcessWatch;
  return *watch;
}

ProcessWatch::ProcessWatch() {
  ::sem_init(&news_, 0, 0);
  ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void ProcessWatch::watch(Watchdog& watchdog) {
  const std::scoped_lock lock(mutex_);
  start();
  if (std::ranges::find(watchdogs_, &watchdog) != watchdogs_.end()) return;
  watchdog.next_look = Clock::now() + watchdog.pause();
  watchdogs_.push_back(&watchdog);
  // The thread sleeps until the look that was due first when it went to sleep, so an earlier one
  // wakes it.
  if (watchdog.next_look < wakes_at_) ::sem_post(&news_);
}

void ProcessWatch::forget(const Watchdog& watchdog) {
  const std::scoped_lock lock(mutex_);
  std::erase(watchdogs_, &watchdog);
}

void ProcessWatch::set_stop_handler(StopHandler handler) {
  const std::scoped_lock lock(mutex_);
  if (handler.begin) {
    start();
    install(SIGINT, true);
    install(SIGTERM, true);
    install(SIGUSR1, true);
  }
  on_stop_ = std::move(handler);
}

// Blocks all signals on the new thread, so that other threads take them: some handlers look at
// their stack, and some signals belong to the simulation.
// REQUIRES: mutex_ is locked
void ProcessWatch::start() {
  if (has_thread_) return;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int error = ::pthread_create(&thread, &attributes, run_thread, this);
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    throw LimitError(
        "KB-L003",
        "cannot start a thread: {}; end other processes, or raise `ulimit -u` and `ulimit -v`",
        std::strerror(error));
  }
  has_thread_ = true;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) install(signal, false);
}

// Takes over a signal that has no handler, or only ours that removes unfinished files.
void ProcessWatch::install(int signal, bool is_forced) {
  struct sigaction present {};
  ::sigaction(signal, nullptr, &present);
  const bool is_free = present.sa_handler == SIG_DFL || removes_unfinished_files(present);
  if (!is_free && !is_forced) return;
  struct sigaction ours {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART | SA_ONSTACK;  // a fiber's stack may be nearly full
  ::sigemptyset(&ours.sa_mask);
  ::sigaction(signal, &ours, nullptr);
}

void ProcessWatch::on_signal(int signal) {
  const int error = errno;
  ProcessWatch& watch = instance();  // exists: whoever installed this handler made it
  if (signal == SIGUSR1) {
    watch.wants_state_ = true;
  } else {
    int nobody = 0;
    const bool is_first = watch.stop_signal_.compare_exchange_strong(nobody, signal);
    if (is_first) watch.stopped_at_ns_ = now_ns();
    // A user who presses Ctrl-C again does not want to wait for the results to be written.
    const bool is_impatient = !is_first && now_ns() - watch.stopped_at_ns_ >= kSameSignal_ns;
    if (is_impatient || !watch.has_thread_) end_process(128 + signal);
  }
  ::sem_post(&watch.news_);
  errno = error;
}

void* ProcessWatch::run_thread(void* watch) {
  static_cast<ProcessWatch*>(watch)->run();
  return nullptr;
}

void ProcessWatch::run() {
  for (;;) {
    const auto due = next_look();
    const auto pause = std::chrono::nanoseconds(std::max(due - Clock::now(), Clock::duration{0}));
    timespec until{};
    ::clock_gettime(CLOCK_MONOTONIC, &until);
    const std::int64_t nanoseconds = until.tv_nsec + pause.count() % 1'000'000'000;
    until.tv_sec += pause.count() / 1'000'000'000 + nanoseconds / 1'000'000'000;
    until.tv_nsec = nanoseconds % 1'000'000'000;
    ::sem_clockwait(&news_, CLOCK_MONOTONIC, &until);
    if (wants_state_.exchange(false)) print_states();
    const int signal = stop_signal_;
    if (signal != 0 && !is_stopping_.exchange(true)) stop(signal);
    if (grace_ends_ <= Clock::now()) end_grace();
    look_at_all();
  }
}

Clock::time_point ProcessWatch::next_look() {
  const std::scoped_lock lock(mutex_);
  Clock::time_point next = std::min(grace_ends_, Clock::now() + std::chrono::seconds(60));
  for (const Watchdog* watchdog : watchdogs_) next = std::min(next, watchdog->next_look);
  wakes_at_ = next;
  return next;
}

void ProcessWatch::look_at_all() {
  const std::scoped_lock lock(mutex_);
  for (Watchdog* watchdog : watchdogs_) {
    const auto now = Clock::now();
    if (watchdog->next_look > now) continue;
    watchdog->look();
    watchdog->next_look = now + watchdog->pause();
  }
}

void ProcessWatch::print_states() {
  const std::scoped_lock lock(mutex_);
  print_error(fmt::format("kernbench: state of {} context{}\n", watchdogs_.size(),
                          watchdogs_.size() == 1 ? "" : "s"));
  for (const Watchdog* watchdog : watchdogs_) watchdog->print_state(STDERR_FILENO);
}

void ProcessWatch::print_running(int descriptor) {
  const std::scoped_lock lock(mutex_);
  for (const Watchdog* watchdog : watchdogs_) watchdog->print_running(descriptor);
}

void ProcessWatch::stop(int signal) {
  {
    const auto held = lock();  // so that whoever takes the handler back finds it done
    if (on_stop_.begin) {
      grace_ends_ = Clock::now() + kGrace;
      return on_stop_.begin(signal);
    }
  }
  print_error(fmt::format("kernbench: error: [KB-S001] ended by {}\n", name_of_signal(signal)));
  print_running(STDERR_FILENO);
  end_process(128 + signal);
}

// A handler that was removed in the meantime has nothing left to do.
void ProcessWatch::end_grace() {
  StopHandler handler;
  {
    const auto held = lock();
    handler = on_stop_;
    grace_ends_ = Clock::time_point::max();
  }
  if (handler.end) handler.end(stop_signal_);
}

// Resets the watch in a forked child: the child has no such thread, and must not wait for it.
void ProcessWatch::before_fork() {
  instance().mutex_.lock();
}
void ProcessWatch::after_fork_in_parent() {
  instance().mutex_.unlock();
}
void ProcessWatch::after_fork_in_child() {
  ProcessWatch& watch = instance();
  watch.has_thread_ = false;
  watch.wants_state_ = false;
  watch.stop_signal_ = 0;
  watch.is_stopping_ = false;
  watch.on_stop_ = {};  // it would write the parent's results
  watch.grace_ends_ = Clock::time_point::max();
  watch.wakes_at_ = Clock::time_point::max();
  ::sem_init(&watch.news_, 0, 0);
  watch.mutex_.unlock();
}

}  // namespace kernbench::runtime
