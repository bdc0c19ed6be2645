// Names what a rank's calls belong to, for traces and reports: a bucket of gradients, a group of
// parameters.

#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/simulation/simulation.h"

namespace kernbench::runtime {

// While it lives, the calling rank's calls and waits are parts of "<what> <number>".  Where nothing
// is recorded it costs nothing.
class [[nodiscard]] NamedPart {
 public:
  NamedPart(Simulation& simulation, std::string_view what, std::size_t number)
      : log_(simulation.run_log()) {
    if (log_ != nullptr) begin(simulation, fmt::format("{} {}", what, number));
  }
  // Names the part "<what>".
  NamedPart(Simulation& simulation, std::string_view what) : log_(simulation.run_log()) {
    if (log_ != nullptr) begin(simulation, std::string(what));
  }
  ~NamedPart() {
    if (log_ != nullptr) log_->set_part(rank_, std::move(before_));
  }
  NamedPart(const NamedPart&) = delete;
  NamedPart& operator=(const NamedPart&) = delete;

 private:
  void begin(Simulation& simulation, std::string part) {
    rank_ = simulation.local().rank;
    before_ = log_->part_of(rank_);
    log_->set_part(rank_, std::move(part));
  }

  RunLog* const log_;
  int rank_ = -1;
  std::string before_;
};

}  // namespace kernbench::runtime
