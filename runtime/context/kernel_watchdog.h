// Ends the process when a kernel keeps the processor without ever yielding: nothing else could, as
// all that simulates is on that one thread.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "runtime/fiber/fiber_scheduler.h"

namespace kernbench::runtime {

// A thread that looks ten times per `limit` at which fiber runs.  A kernel that it finds in the
// same turn at ten looks in a row has run for `limit`: KB-D003 on standard error, and exit code 20.
// It reads atomics only, so simulation pays no more than their increments, and its results do not
// depend on it.  What fiber that is only the simulating thread may read: it is sent a signal
// (SIGURG, which nobody sees who does not ask for it), and its handler leaves the answer.
//
// Looks are counted, not a clock read, so that a process which was stopped and goes on is not taken
// for one that hangs; nor is one under a debugger.  Ranks are not watched: they are the host's
// program, which may compute for as long as it likes.
class KernelWatchdog {
 public:
  // REQUIRES: fibers outlives this, and their Fiber::local() is null or a FiberLocal
  KernelWatchdog(const FiberScheduler& fibers, std::chrono::milliseconds limit)
      : fibers_(fibers), limit_(limit) {}
  ~KernelWatchdog();
  KernelWatchdog(const KernelWatchdog&) = delete;
  KernelWatchdog& operator=(const KernelWatchdog&) = delete;

  // From now on, unless the limit is 0.  May be called any number of times.
  // REQUIRES: on the thread that simulates, until another one calls it
  void start();

  // For the handler of the signal, on any thread: answers if it is the one that simulates.
  // Async-signal-safe.
  bool answer() noexcept;

 private:
  static constexpr int kLooks = 10;

  void watch();
  void ask(std::uint64_t turn);
  [[noreturn]] void report() const;

  const FiberScheduler& fibers_;
  const std::chrono::milliseconds limit_;
  std::atomic<pthread_t> simulating_thread_{};
  std::atomic<std::uint64_t> asked_turn_ = 0;
  std::atomic<std::uint64_t> kernel_turn_ = 0;  // the turn asked for, if it is a kernel's
  std::array<char, 256> name_{};                // of that kernel
  std::size_t name_length_ = 0;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace kernbench::runtime
