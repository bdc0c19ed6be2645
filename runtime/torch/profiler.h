// torch.profiler, with PyTorch's names.
//
//   profiler::profile prof(torch);
//   for (const Batch& batch : batches) {
//     profiler::record_function scope(torch, "forward");
//     y = layer.forward(batch);
//     prof.step();
//   }
//   prof.stop();
//   fmt::print("{}", prof.key_averages().table("cuda_time_total", 10));
//   prof.export_chrome_trace("trace.json");

#pragma once

#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/profiler/profile.h"

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

// Declares that [from, to) is what the program measures, such as a step: `kernbench run --explain`,
// --summary and --report speak of these parts of a run alone, and leave out uploads and warm-up.
// Ranks that time the same work each call it; parts that overlap become one.
// REQUIRES: simulated time has reached `to`
void timed(RuntimeContext& torch, std::string_view name, Time from, Time to);

class KeyAverages {
 public:
  explicit KeyAverages(std::shared_ptr<const Profile> profile) : profile_(std::move(profile)) {}

  const std::vector<runtime::OperationRow>& rows() const { return profile_->operations; }
  std::string table(SortBy sort_by = SortBy::total, std::size_t row_limit = 100) const {
    return runtime::table(*profile_, sort_by, row_limit);
  }
  // Sorts by torch's names, such as "cuda_time_total", or by "exposed" (runtime::parse_sort_by()).
  std::string table(std::string_view sort_by, std::size_t row_limit = 100) const {
    return table(runtime::parse_sort_by(sort_by), row_limit);
  }

 private:
  std::shared_ptr<const Profile> profile_;
};

// Profiles the run from its construction on, until stop() or, without it, until its results are
// asked for.  Its construction, stop() and results wait for what the caller has queued.
class profile {
 public:
  explicit profile(RuntimeContext& torch);

  // Begins anew.
  void start();
  // Results are those of until now.
  void stop();
  // Marks the end of a step of the caller's program, as "ProfilerStep#0", "ProfilerStep#1", ...
  void step();

  // The profile begins at the construction, or the last start(), and ends at the last stop(), or
  // now.
  Profile result() const;
  KeyAverages key_averages() const;
  // The text of `kernbench run --summary`.
  std::string summary() const;
  // The text of `kernbench run --explain`, without reruns.
  std::string explain() const;
  // Writes a trace for ui.perfetto.dev.  Throws IoError KB-I010 if the file cannot be written.
  void export_chrome_trace(const std::string& path) const;
  // Writes DIR/rank0.json, DIR/rank1.json, ... as PyTorch's profiler does, for HTA
  // (torch.profiler.tensorboard_trace_handler), and removes those of further ranks that an earlier
  // run has left there.  Throws as export_chrome_trace().
  void export_kineto_traces(const std::string& folder) const;

 private:
  RuntimeContext& torch_;
  Time start_{0};
  std::shared_ptr<const Profile> stopped_;
  int steps_ = 0;
};

}  // namespace profiler
}  // namespace kernbench
