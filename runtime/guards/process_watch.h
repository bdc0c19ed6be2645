// The process's watch: one thread that inspects the fibers of all contexts, and handles the
// signals that ask the process to end or to print its state.
//
//   SIGINT, SIGTERM, SIGHUP  name the rank or the kernel that runs, and end the process with 130,
//                            143 or 129, unless a StopHandler ends it in order
//   SIGUSR1                  prints the state of all ranks, and the process goes on
// A signal that already has a handler, or is ignored, is left alone.
// Handlers only leave a note: this thread, which runs an event loop of Boost.Asio, prints and acts.

#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

namespace kernbench::runtime {

class Watchdog;

class ProcessWatch {
 public:
  // The instance is never destroyed: its thread lives as long as the process.
  static ProcessWatch& instance();

  // Throws LimitError KB-L003 if the host has no thread or no descriptors for it.
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

  // A child that simulates for this process: SIGUSR1 is passed on to it.
  void add_child(pid_t child);
  void forget_child(pid_t child);

 private:
  struct Loop;

  ProcessWatch();
  void start();
  void start_thread();
  void wait_for_signal();
  void plan_look(Watchdog& watchdog);
  void print_states();
  void stop(int signal);
  void end_grace(int signal);
  static void* run_thread(void* watch);
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  // Whoever changes the loop from outside of its thread holds the first; functions that the loop
  // calls take the second alone, so that a fork may wait for them to end.
  std::mutex loop_mutex_;
  std::mutex mutex_;
  std::unique_ptr<Loop> loop_;  // both mutexes guard it and the members below
  pthread_t thread_{};
  bool has_thread_ = false;
  bool is_stopping_ = false;  // a signal has come
  StopHandler on_stop_;
  std::set<pid_t> children_;
  bool is_child_ = false;
};

}  // namespace kernbench::runtime
