// torch.profiler, with PyTorch's names.
//
//   profiler::profile prof(torch);
//   {
//     profiler::record_function scope(torch, "forward");
//     y = layer.forward(x);
//   }
//   fmt::print("{}", prof.key_averages().table());
//   prof.export_chrome_trace("trace.json");

#pragma once

#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/profiler/explain.h"
#include "runtime/profiler/profile.h"
#include "runtime/profiler/trace_level.h"

namespace kernbench {

class RuntimeContext;

namespace runtime {
class Simulation;
}

namespace profiler {

using runtime::Profile;
using runtime::SortBy;
using runtime::TraceLevel;

// Names what a rank does for as long as it lives: a span of the rank's track in traces.  Scopes of
// a rank nest.  It takes no simulated time, and does nothing in a run that is not profiled.
class record_function {
 public:
  record_function(RuntimeContext& torch, std::string_view name,
                  std::source_location at = std::source_location::current());
  ~record_function();
  record_function(const record_function&) = delete;
  record_function& operator=(const record_function&) = delete;

 private:
  runtime::Simulation& simulation_;
  std::size_t span_;
};

// Marks an instant of the caller's program, such as a step.
void mark(RuntimeContext& torch, std::string_view name);

class KeyAverages {
 public:
  explicit KeyAverages(Profile profile) : profile_(std::move(profile)) {}

  const std::vector<runtime::OperationRow>& rows() const { return profile_.operations; }
  std::string table(SortBy sort_by = SortBy::total, std::size_t row_limit = 100) const {
    return runtime::table(profile_, sort_by, row_limit);
  }

 private:
  Profile profile_;
};

// Profiles the run from its construction on.  Its construction and results wait for what the caller
// has queued.
class profile {
 public:
  explicit profile(RuntimeContext& torch);

  // From the construction until now.
  Profile result() const;
  KeyAverages key_averages() const { return KeyAverages(result()); }
  // The text of `kernbench run --explain`.
  std::string explain() const { return runtime::explain(result()); }
  // Writes a trace for ui.perfetto.dev.  Throws IoError KB-I010 if the file cannot be written.
  void export_chrome_trace(const std::string& path) const;

 private:
  RuntimeContext& torch_;
  runtime::ProfileStart start_;
};

}  // namespace profiler
}  // namespace kernbench
