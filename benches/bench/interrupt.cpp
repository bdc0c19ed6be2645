#include "benches/bench/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <utility>

#include "runtime/guards/process_watch.h"
#include "sim_engine/base/unfinished_files.h"

namespace kernbench::benches {

using runtime::ProcessWatch;

// The end of a run after a signal: either the run ends by itself, or it is ended by force.
struct InterruptWatch::End {
  explicit End(Action action) : keep_finished(std::move(action)) {}

  // True for the one caller that may write the results.
  bool claim() { return !is_claimed.test_and_set(); }

  // The run's thread goes on meanwhile, so only its finished results may be read.
  void by_force(ExitCode reason) {
    if (!claim()) return;
    try {
      keep_finished(reason);
    } catch (const std::exception&) {  // ending the process matters more
    }
    ProcessWatch::instance().print_running(STDERR_FILENO);
    end_process(static_cast<int>(reason));
  }

  const Action keep_finished;
  std::atomic_flag is_claimed;
};

InterruptWatch::InterruptWatch(Action interrupt, Action keep_finished)
    : end_(std::make_shared<End>(std::move(keep_finished))) {
  ProcessWatch::instance().set_stop_handler(
      {.begin = [interrupt =
                     std::move(interrupt)](int signal) { interrupt(exit_code_of_signal(signal)); },
       .end = [end = end_](int signal) { end->by_force(exit_code_of_signal(signal)); }});
}

InterruptWatch::~InterruptWatch() {
  ProcessWatch::instance().set_stop_handler({});
}

void InterruptWatch::run_ended() {
  if (has_ended_) return;
  has_ended_ = end_->claim();
  while (!has_ended_) ::pause();
}

}  // namespace kernbench::benches
