// The process's watch: one thread that looks at all contexts' fibers, and deals with the signals
// that ask for an end or for a state.
//
//   SIGINT, SIGTERM, SIGHUP  name the rank or the kernel that runs, and end the process with 130,
//                            143 or 129, unless somebody wants to end it in order (StopRequests)
//   SIGUSR1                  prints the state of all ranks, and the process goes on
// A handler that was there before keeps its signal, and so does a signal that is ignored.
// Handlers only leave a note: what is said and done is said and done on this thread.

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
  // Never destroyed: its thread lives as long as the process.
  static ProcessWatch& instance();

  // Throws LimitError KB-L003 if the host has no thread for it.
  void watch(Watchdog& watchdog);
  // When it returns, the thread does not look at it any more.
  void forget(const Watchdog& watchdog);

  // Keeps the thread from looking.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  // Who ends the process in order.  Both are called on the thread, with the signal.
  struct StopHandler {
    std::function<void(int signal)> begin;  // when it comes
    std::function<void(int signal)> end;    // kGrace later: what takes so long is not waited for
  };
  static constexpr std::chrono::milliseconds kGrace{500};

  // An empty handler removes the one before.  SIGINT and SIGTERM are taken from whoever has them.
  // A signal that comes 0.2 s after the first, or later, ends the process at once.
  void set_stop_handler(StopHandler handler);

  // The watchdogs of all contexts, which know what runs at present.
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

  std::mutex mutex_;  // of what follows
  std::vector<Watchdog*> watchdogs_;
  StopHandler on_stop_;
  std::chrono::steady_clock::time_point grace_ends_ = std::chrono::steady_clock::time_point::max();
  std::chrono::steady_clock::time_point wakes_at_ = std::chrono::steady_clock::time_point::max();
  std::atomic<bool> has_thread_ = false;
  std::atomic<int> stop_signal_ = 0;  // the first that came
  std::atomic<std::int64_t> stopped_at_ns_ = INT64_MAX;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<bool> wants_state_ = false;
  sem_t news_;
};

}  // namespace kernbench::runtime
