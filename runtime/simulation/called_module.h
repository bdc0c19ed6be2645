// The module whose forward() a rank is in, or whose backward, for tables and reports.

#pragma once

#include <string>
#include <string_view>

namespace kernbench::runtime {

class RunLog;

struct CalledModule {
  std::string path = {};         // from the outermost one: "blocks.3.up"; empty: that one itself
  const void* module = nullptr;  // alive while its forward() runs; null: none, or its backward
  bool is_recomputed = false;    // by a checkpoint: modules have the paths that they had before
};

// While it lives, what a rank launches belongs to a module.
class [[nodiscard]] InModule {
 public:
  InModule() = default;  // changes nothing
  // `log`: that of a profiled run, or null.
  InModule(RunLog* log, int rank, CalledModule module);
  InModule(RunLog* log, int rank, std::string_view path, const void* module);
  ~InModule();
  InModule(const InModule&) = delete;
  InModule& operator=(const InModule&) = delete;

 private:
  RunLog* log_ = nullptr;
  int rank_ = 0;
  CalledModule before_;
};

}  // namespace kernbench::runtime
