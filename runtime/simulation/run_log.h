// Records what ranks and devices do, under the names that the user's program gives it: calls,
// kernels, waits, scopes and marks.  Tables, traces and reports are made of it (ADR-0203).
//
// It is kept only if RuntimeOptions::profile or trace asks for it: an entry for each call, not for
// each command of a kernel.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/simulation/called_module.h"
#include "sim_engine/base/memory_kind.h"
#include "sim_engine/base/units.h"

namespace kernbench::runtime {

struct RunSpan {
  enum class Kind : std::uint8_t {
    kernel,             // a launch on one device, from its first PE's start to its last PE's end
    collective_kernel,  // the same, of a collective or of a message
    collective,         // a rank's call: from when its earlier calls are done to its end
    message,            // a rank's send or receive, from when both sides have called
    wait,               // a rank's program waits
    action,             // a computation of a pipeline's schedule, on the device
    scope,              // profiler::record_function
    mark                // an instant of the program: a bench's row, a step
  };

  Kind kind = Kind::mark;
  int rank = 0;  // -1: the driver, outside of ranks; of kernels: the device
  int device = 0;
  std::string name = {};    // "add", "all_reduce", "forward"; of a wait: what it waits for
  std::string where = {};   // "ddp.cpp:41", the line of the call; empty: not known
  std::string part = {};    // of what it is a part: "bucket 0"; empty: of nothing named (NamedPart)
  std::string module = {};  // the path of the module that called it (CalledModule)
  Time issued{0};           // when it was called
  std::optional<std::size_t> scope = {};  // the innermost one when it was called, a RunLog::Id
  Time start{0};
  Time end = Time::max();  // max(): it is not over
  Bytes bytes = 0;         // kernels: from and to HBM; calls: of the rank's tensor

  // The fields below are those of a collective or message.
  int group = -1;              // its number; -1: none
  std::int64_t sequence = -1;  // a collective's number in its group
  int peer = -1;               // of a message: the other global rank
  std::string algorithm = {};
  std::uint64_t flow = 0;  // equal on both sides of a message; 0: none

  // The fields below are those of kernels.
  Time taken_up{0};    // when the device took it up; before that it was queued
  Time last_start{0};  // when its last PE began
  Time returned{0};    // when the host knew that it was over
  int pe_count = 0;
  std::int64_t operations = 0;  // arithmetic ones (KernelRun::Traffic)
};

// A tensor's place in HBM.
struct RunTensor {
  int device = 0;
  std::string name;
  Bytes bytes = 0;  // of its blocks
  MemoryKind kind = MemoryKind::temporary;
  std::string module = {};  // the path of the module that made it, or that has it as a parameter
  Time made{0};
  Time freed = Time::max();  // max(): not yet
  // Their numbers among all allocations and frees of tensors, since several happen at a time.
  std::uint64_t made_by = 0;
  std::uint64_t freed_by = UINT64_MAX;
};

std::string_view name_of(RunSpan::Kind kind);

class RunLog {
 public:
  using Id = std::size_t;
  static constexpr Id kNone = static_cast<Id>(-1);  // of what began before the log did

  // Adds a span whose later fields are still to come.
  Id add(RunSpan span) {
    spans_.push_back(std::move(span));
    return spans_.size() - 1;
  }
  // Writes to the span of kNone are ignored.
  RunSpan& at(Id id) { return id == kNone ? ignored_ : spans_[id]; }

  Id add(RunTensor tensor) {
    tensors_.push_back(std::move(tensor));
    return tensors_.size() - 1;
  }
  void tensor_freed(Id id, Time now, std::uint64_t event) {
    if (id == kNone) return;
    tensors_[id].freed = now;
    tensors_[id].freed_by = event;
  }
  // Returns null for kNone.
  RunTensor* find_tensor(Id id) { return id == kNone ? nullptr : &tensors_[id]; }
  const std::deque<RunTensor>& tensors() const { return tensors_; }  // in the order of creation

  // The innermost scope of a rank's program, else of the driver's.
  std::optional<Id> find_scope(int rank) const;
  void open_scope(int rank, Id scope) { open_scopes_[rank].push_back(scope); }
  void close_scope(int rank) { open_scopes_[rank].pop_back(); }

  // A rank's calls and waits belong to this part ("bucket 0") from now on, until another is set.
  const std::string& part_of(int rank) { return parts_[rank]; }
  void set_part(int rank, std::string part) { parts_[rank] = std::move(part); }

  // A rank's calls belong to this module from now on.
  const CalledModule& module_of(int rank) { return modules_[rank]; }
  void set_module(int rank, CalledModule module) { modules_[rank] = std::move(module); }

  // The paths of modules, by serial number, from the outermost one that was first called; null: not
  // known.
  const std::string* find_path(std::uint64_t module) const {
    const auto found = module_paths_.find(module);
    return found == module_paths_.end() ? nullptr : &found->second;
  }
  void set_path(std::uint64_t module, const std::string& path) { module_paths_[module] = path; }

  // Numbers the messages, from 1 on.
  std::uint64_t next_flow() { return ++last_flow_; }

  const std::deque<RunSpan>& spans() const { return spans_; }  // in the order of their beginning

 private:
  std::deque<RunSpan> spans_;
  std::deque<RunTensor> tensors_;
  std::map<int, std::vector<Id>> open_scopes_;  // by rank, -1: the driver
  std::map<int, std::string> parts_;            // likewise
  std::map<int, CalledModule> modules_;         // likewise
  std::map<std::uint64_t, std::string> module_paths_;
  RunSpan ignored_;
  std::uint64_t last_flow_ = 0;
};

}  // namespace kernbench::runtime
