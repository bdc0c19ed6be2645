#pragma once

#include <memory>

#include "runtime/torch/runtime_context.h"

namespace kernbench::benches {

class ContextSet;

struct ContextCollector {
  ContextSet* set;
  void operator()(RuntimeContext* torch) const;
};

// A RuntimeContext that enters its statistics and its trace in its set when it goes out of scope.
using CollectedContext = std::unique_ptr<RuntimeContext, ContextCollector>;

}  // namespace kernbench::benches
