#include "runtime/guards/process_watch.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/guards/watchdog.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/unfinished_files.h"

namespace kernbench::runtime {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t kStackBytes = 512 * 1024;  // independent of `ulimit -s`

void print_error(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

// `timeout` and similar tools signal a process and then its group, so that one request arrives
// twice.
constexpr std::chrono::milliseconds kSameSignal{200};

using Clock = std::chrono::steady_clock;
std::atomic<Clock::time_point> stopped_at = Clock::time_point{};
std::atomic<void (*)(int)> tell_loop = nullptr;  // Asio's handler

// A user who presses Ctrl-C again does not want to wait for the results to be written.
bool is_impatient() {
  const Clock::time_point now = Clock::now();
  Clock::time_point first{};
  return !stopped_at.compare_exchange_strong(first, now) && now - first >= kSameSignal;
}

void on_watched_signal(int signal) {
  if (signal != SIGUSR1 && is_impatient()) end_process(128 + signal);
  tell_loop.load()(signal);
}

// Takes over a signal that has no handler, or only ours that removes unfinished files.
void take(asio::signal_set& signals, int signal, bool is_forced) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  const bool is_free = action.sa_handler == SIG_DFL || removes_unfinished_files(action);
  if (!is_free && !is_forced) return;
  signals.add(signal);
  ::sigaction(signal, nullptr, &action);
  void (*none)(int) = nullptr;
  tell_loop.compare_exchange_strong(none, action.sa_handler);
  action.sa_handler = on_watched_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // a fiber's stack may be nearly full
  ::sigaction(signal, &action, nullptr);
}

[[noreturn]] void refuse_to_watch(std::string_view what, std::string_view why) {
  throw LimitError("KB-L003",
                   "cannot {}: {}; end other processes, or raise `ulimit -u`, `ulimit -n` and "
                   "`ulimit -v`",
                   what, why);
}

}  // namespace

struct ProcessWatch::Loop {
  asio::io_context context{1};
  asio::signal_set signals{context};
  asio::steady_timer grace{context};
  std::map<const Watchdog*, asio::steady_timer> looks = {};
};

ProcessWatch& ProcessWatch::instance() {
  // It is never destroyed, because its thread and handlers run until the process ends.
  static auto* const watch = new ProcessWatch;
  return *watch;
}

ProcessWatch::ProcessWatch() {
  ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void ProcessWatch::watch(Watchdog& watchdog) {
  const std::scoped_lock lock(loop_mutex_, mutex_);
  start();
  if (loop_->looks.try_emplace(&watchdog, loop_->context).second) plan_look(watchdog);
}

void ProcessWatch::forget(const Watchdog& watchdog) {
  const std::scoped_lock lock(loop_mutex_, mutex_);
  loop_->looks.erase(&watchdog);
}

void ProcessWatch::set_stop_handler(StopHandler handler) {
  const std::scoped_lock lock(loop_mutex_, mutex_);
  if (handler.begin) {
    start();
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) take(loop_->signals, signal, true);
  }
  on_stop_ = std::move(handler);
}

// REQUIRES: both mutexes are locked
void ProcessWatch::start() {
  if (has_thread_) return;
  try {
    if (loop_ == nullptr) loop_ = std::make_unique<Loop>();
  } catch (const boost::system::system_error& error) {
    refuse_to_watch("watch for signals", error.code().message());
  }
  start_thread();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) take(loop_->signals, signal, false);
  wait_for_signal();
}

void ProcessWatch::wait_for_signal() {
  loop_->signals.async_wait([this](const error_code& error, int signal) {
    if (error) return;
    signal == SIGUSR1 ? print_states() : stop(signal);
    wait_for_signal();
  });
}

// Blocks all signals on the new thread, so that other threads take them: some handlers look at
// their stack, and some signals belong to the simulation.
void ProcessWatch::start_thread() {
  loop_->context.restart();
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  const int error = ::pthread_create(&thread_, &attributes, run_thread, this);
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) refuse_to_watch("start a thread", std::strerror(error));
  has_thread_ = true;
}

void* ProcessWatch::run_thread(void* watch) {
  asio::io_context& context = static_cast<ProcessWatch*>(watch)->loop_->context;
  const auto work = asio::make_work_guard(context);
  context.run();
  return nullptr;
}

// REQUIRES: mutex_ is locked
void ProcessWatch::plan_look(Watchdog& watchdog) {
  asio::steady_timer& timer = loop_->looks.at(&watchdog);
  timer.expires_after(watchdog.pause());
  timer.async_wait([this, &watchdog](const error_code& error) {
    if (error) return;
    const auto held = lock();
    if (!loop_->looks.contains(&watchdog)) return;
    watchdog.look();
    plan_look(watchdog);
  });
}

void ProcessWatch::print_states() {
  const auto held = lock();
  for (const pid_t child : children_) ::kill(child, SIGUSR1);
  if (loop_->looks.empty() && (is_child_ || !children_.empty())) return;  // others have them
  print_error(fmt::format("kernbench: state of {} context{}\n", loop_->looks.size(),
                          loop_->looks.size() == 1 ? "" : "s"));
  for (const auto& [watchdog, timer] : loop_->looks) watchdog->print_state(STDERR_FILENO);
}

void ProcessWatch::print_running(int descriptor) {
  const auto held = lock();
  if (loop_ == nullptr) return;
  for (const auto& [watchdog, timer] : loop_->looks) watchdog->print_running(descriptor);
}

void ProcessWatch::add_child(pid_t child) {
  const auto held = lock();
  children_.insert(child);
}

void ProcessWatch::forget_child(pid_t child) {
  const auto held = lock();
  children_.erase(child);
}

void ProcessWatch::stop(int signal) {
  if (std::exchange(is_stopping_, true)) return;
  {
    const auto held = lock();  // so that whoever takes the handler back finds it done
    if (on_stop_.begin) {
      loop_->grace.expires_after(kGrace);
      loop_->grace.async_wait([this, signal](const error_code& error) {
        if (!error) end_grace(signal);
      });
      return on_stop_.begin(signal);
    }
  }
  print_error(fmt::format("kernbench: error: [KB-S001] ended by SIG{}\n", ::sigabbrev_np(signal)));
  print_running(STDERR_FILENO);
  end_process(128 + signal);
}

// A handler that was removed in the meantime has nothing left to do.
void ProcessWatch::end_grace(int signal) {
  StopHandler handler;
  {
    const auto held = lock();
    handler = on_stop_;
  }
  if (handler.end) handler.end(signal);
}

// Asio forks only where no thread runs the loop.
void ProcessWatch::before_fork() {
  ProcessWatch& watch = instance();
  watch.loop_mutex_.lock();
  if (watch.has_thread_) {
    watch.loop_->context.stop();
    ::pthread_join(watch.thread_, nullptr);
  }
  watch.mutex_.lock();
  if (watch.loop_ != nullptr) watch.loop_->context.notify_fork(asio::io_context::fork_prepare);
}

void ProcessWatch::after_fork_in_parent() {
  ProcessWatch& watch = instance();
  if (watch.loop_ != nullptr) watch.loop_->context.notify_fork(asio::io_context::fork_parent);
  if (watch.has_thread_) watch.start_thread();
  watch.mutex_.unlock();
  watch.loop_mutex_.unlock();
}

// The child has no such thread until it asks for one, and its signals end it as they end others.
void ProcessWatch::after_fork_in_child() {
  ProcessWatch& watch = instance();
  watch.has_thread_ = false;
  watch.on_stop_ = {};  // it would write the parent's results
  watch.is_stopping_ = false;
  watch.children_.clear();
  watch.is_child_ = true;
  stopped_at = Clock::time_point{};
  if (watch.loop_ != nullptr) {
    watch.loop_->context.notify_fork(asio::io_context::fork_child);
    watch.loop_->grace.cancel();
    watch.loop_->signals.clear();
    watch.loop_->signals.cancel();
  }
  watch.mutex_.unlock();
  watch.loop_mutex_.unlock();
}

}  // namespace kernbench::runtime
