// The process's watch: one thread that inspects the fibers of all contexts, and handles the
// signals that ask the process to end or to print its state.
//
//   SIGINT, SIGTERM, SIGHUP  name the rank or the kernel that runs, and end the process with 130,
//                            143 or 129, unless a StopHandler ends it in order
//   SIGUSR1                  prints the state of all ranks, and the process goes on
// A signal that already has a handler, or is ignored, is left alone.
// Handlers only set a flag: this thread prints and acts.

#pragma once

#include <semaphore.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace kernbench::runtime {

class Watchdog;

class ProcessWatch {
 public:
  // The instance is never destroyed: its thread lives as long as the process.
  static ProcessWatch& instance();

  // Throws LimitError KB-L003 if the host has no thread for it.
  void watch(Watchdog& watchdog);
  // After it returns, the thread no longer inspects this watchdog.
  void forget(const Watchdog& watchdog);

  // Keeps the thread from inspecting while the lock is held.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  // Functions that end the process in order.  Both are called on the watch's thread, with the
  // signal.
  struct StopHandler {
    std::function<void(int signal)> begin;  // when the signal comes
    std::function<void(int signal)> end;    // kGrace later: longer work is not waited for
  };
  static constexpr std::chrono::milliseconds kGrace{500};

  // An empty handler removes the previous one.  SIGINT and SIGTERM are taken over even if they
  // have a handler.  A signal that comes 0.2 s or more after the first ends the process at once.
  void set_stop_handler(StopHandler handler);

  // Prints what the watchdogs of all contexts see running at present.
  void print_running(int descriptor);

 private:
  ProcessWatch();
  void start();
  void run();
  void look_at_all();
  void print_states();
  void stop(int signal);
  void end_grace();
  std::chrono::steady_clock::time_point next_look();
  static void* run_thread(void* watch);
  static void on_signal(int signal);
  void install(int signal, bool is_forced);
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  std::mutex mutex_;  // guards the members below
  std::vector<Watchdog*> watchdogs_;
  StopHandler on_stop_;
  std::chrono::steady_clock::time_point grace_ends_ = std::chrono::steady_clock::time_point::max();
  std::chrono::steady_clock::time_point wakes_at_ = std::chrono::steady_clock::time_point::max();
  std::atomic<bool> has_thread_ = false;
  std::atomic<int> stop_signal_ = 0;  // the first signal that came
  std::atomic<std::int64_t> stopped_at_ns_ = INT64_MAX;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<bool> wants_state_ = false;
  sem_t news_;
};

}  // namespace kernbench::runtime
