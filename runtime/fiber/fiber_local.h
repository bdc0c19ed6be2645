// The runtime's state of a fiber: the rank that it is, or the kernel that it runs.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/memory_kind.h"
#include "sim_engine/topology/location.h"

namespace kernbench::runtime {

// A fiber's operators leave values here that are computed when something needs them.  Only the
// operators know the type behind it.
class Deferral {
 protected:
  ~Deferral() = default;
};

// An operation that a rank is in, or waits for.  Its text is made only when a report is written.
class Activity {
 public:
  virtual std::string describe() const = 0;
  // Returns the ranks that it still waits for, ascending.
  virtual std::vector<int> missing_ranks() const = 0;

 protected:
  ~Activity() = default;
};

struct FiberLocal {
  // A `work` fiber runs operations that a rank has issued and does not wait for.
  enum class Kind { unbound, rank, kernel, work };

  Kind kind = Kind::unbound;
  int rank = 0;                        // 0 for an unbound fiber and the main stack (single driver)
  int device = 0;                      // the SIP on which tensors are made
  std::optional<DType> default_dtype;  // torch.set_default_dtype(); none: the driver's

  // True if it acts for a device, which runs what a rank has queued: its launches need not come
  // from the host.  A `work` fiber's.
  bool is_on_device = false;
  std::uint64_t write = 0;  // Simulation::next_write() at its issue; 0: its launches take their own

  bool is_grad_enabled = true;   // true if operators record what backward() needs
  Deferral* deferral = nullptr;  // of its operators; null: they compute at once
  // The kind of the tensors that it makes, unless they become more; none: input if torch.zeros or
  // the like makes them, else temporary.
  std::optional<MemoryKind> makes;

  // The fields below are a kernel's.
  std::string_view kernel;
  sim::PeLocation pe;
  std::optional<sim::PeLocation> waits_for;  // the PE at the other end, while it waits for a queue
  std::optional<Time> waits_since;           // set with waits_for; on its PE_CPU's clock

  int full_depth = 0;  // depth of the full queue that it waits to send to

  // Counts how often a rank has looked at works that were not done, without waiting for anything
  // else.
  struct Polls {
    Time at{0};  // simulated time of the last look
    int looks = 0;
    int stalls = 0;  // consecutive looks that let time advance but found it unchanged
  };
  Polls polls;

  // The collective, message or launch that the rank has called last.  Another thread may read it
  // while the rank computes.
  struct LastCall {
    std::atomic<const char*> function = nullptr;  // a literal; null: none yet
    std::atomic<const char*> file = nullptr;      // a literal; null: not known
    std::atomic<std::uint32_t> line = 0;
    std::atomic<std::int64_t> sequence = -1;  // number of a collective in its group

    void set(const char* name, const char* in_file = nullptr, std::uint32_t in_line = 0,
             std::int64_t number = -1) {
      constexpr auto kRelaxed = std::memory_order_relaxed;
      function.store(name, kRelaxed);
      file.store(in_file, kRelaxed);
      line.store(in_line, kRelaxed);
      sequence.store(number, kRelaxed);
    }
  };
  LastCall last_call;

  const Activity* collective = nullptr;  // the one that this rank is in; null: none
  const Activity* work = nullptr;        // the Work that it waits for, unless it is in a collective
};

// "rank 1", "ranks 1, 2 and 4"; a long list is cut to the first ones and the number of the others.
// REQUIRES: `ranks` is not empty
std::string name_ranks(std::span<const int> ranks);

// Writes "rank 2" or "kernel 'x' on sip0.cube0.pe1".  Async-signal-safe (a runtime::NameWriter).
std::size_t write_name(const void* local, std::span<char> buffer) noexcept;

}  // namespace kernbench::runtime
