// SIGINT, SIGTERM and SIGHUP while a bench runs.

#pragma once

#include <functional>
#include <memory>

#include "sim_engine/base/error.h"

namespace kernbench::benches {

// While it exists, the first signal calls `interrupt` on another thread, which stops the
// simulations.  If the run does not end soon afterwards, because the host computes, that thread
// calls `keep_finished` and ends the process (ADR-0111).  A second signal, 0.2 s later or more,
// ends it at once.  The exit code is the signal's.
class InterruptWatch {
 public:
  using Action = std::function<void(ExitCode reason)>;

  // Throws LimitError KB-L003 if the host has no thread for it.
  InterruptWatch(Action interrupt, Action keep_finished);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // Called by the run's thread when the run has ended: from now on the watch lets it finish what it
  // writes.  Does not return if the process is being ended already.  May be called several times.
  void run_ended();

 private:
  struct End;  // outlives this, as the other thread may be about to call keep_finished

  const std::shared_ptr<End> end_;
  bool has_ended_ = false;
};

}  // namespace kernbench::benches
