// Runs a program on a backend.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/torch/runtime_context.h"
#include "test/ccl/differential/sequential_model.h"

namespace kernbench::test::differential {

// A machine on which programs of `ranks` ranks run, one after the other.
class Machine {
 public:
  Machine(const Topology& topology, const std::string& backend, const DPPolicy& dp);

  struct End {
    std::optional<Refusal> refusal;  // the first
    std::string text;                // of the error that ended the run; "": none
    Outcome outcome;                 // if there was none
  };
  End run(const Program& program);

 private:
  RuntimeContext torch_;
  const DPPolicy dp_;
  std::vector<distributed::ProcessGroup> groups_;
};

}  // namespace kernbench::test::differential
