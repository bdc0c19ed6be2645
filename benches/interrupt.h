// SIGINT, SIGTERM and SIGHUP while a bench runs.

#pragma once

#include <functional>
#include <memory>

#include "sim_engine/base/error.h"

namespace kernbench::benches {

// While it exists, the first signal calls `interrupt` on another thread, which stops what is
// simulated.  If the run does not end soon after it, since the host computes, `keep_finished` is
// called there, and the process ends, whatever it does (ADR-0155).  A second signal, 0.2 s
// later or more, ends it at once.  The exit code is the signal's.
class InterruptWatch {
 public:
  using Action = std::function<void(ExitCode reason)>;

  // Throws LimitError KB-L003 if the host has no thread for it.
  InterruptWatch(Action interrupt, Action keep_finished);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // For the thread of the run, which has ended: what it writes now is waited for.  Does not return
  // if the process is being ended already.  Any number of times.
  void run_ended();

 private:
  struct End;  // outlives this, as the other thread may be about to call keep_finished

  const std::shared_ptr<End> end_;
  bool has_ended_ = false;
};

}  // namespace kernbench::benches
