// What the runtime knows about a fiber: the rank that it is, or the kernel that it runs.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/components/location.h"

namespace kernbench::runtime {

struct FiberLocal {
  // `work` is what a rank has issued with async_op, on a fiber of its own.
  enum class Kind { unbound, rank, kernel, work };

  // What a rank is in, for reports: text is made of it only when one is written.
  struct Activity {
    const void* object = nullptr;  // null: nothing
    std::string (*text)(const void* object) = nullptr;
    std::vector<int> (*missing)(const void* object) = nullptr;

    explicit operator bool() const { return object != nullptr; }
    std::string describe() const { return text(object); }
    // Ranks that have not done yet what it needs of them, ascending.
    std::vector<int> missing_ranks() const { return missing(object); }
  };

  Kind kind = Kind::unbound;
  int rank = 0;    // of an unbound fiber, and of the main stack: 0 (single driver)
  int device = 0;  // the SIP that tensors are made on

  bool is_grad_enabled = true;  // whether operators record what backward() needs

  // Of a kernel.
  std::string_view kernel;
  sim::PeLocation pe;
  std::optional<sim::PeLocation> waits_for;  // the PE at the other end, while it waits for a queue
  std::optional<Time> waits_since;           // likewise, on its PE_CPU's clock

  int full_depth = 0;  // of the queue whose slots are all in use, while it waits for one

  // How often a rank has looked at works that were not done, and waited for nothing else meanwhile.
  struct Polls {
    Time at{0};  // of the last one
    int looks = 0;
    int stalls = 0;  // the last ones before which time could have gone on, and did not
  };
  Polls polls;

  // The collective, message or launch that the rank has called last, for who looks at it from
  // another thread while it computes.
  struct LastCall {
    std::atomic<const char*> function = nullptr;  // a literal; null: none yet
    std::atomic<const char*> file = nullptr;      // likewise; null: it is not known
    std::atomic<std::uint32_t> line = 0;
    std::atomic<std::int64_t> sequence = -1;  // of a collective in its group

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

  Activity collective;  // that this rank is in
  Activity work;        // else, the Work that it waits for
};

// "rank 1", "ranks 1, 2 and 4"; of many the first, and how many more.  REQUIRES: there is one
std::string name_ranks(std::span<const int> ranks);

// "rank 2", "kernel 'x' on sip0.cube0.pe1".  Async-signal-safe (a runtime::NameWriter).
std::size_t write_name(const void* local, std::span<char> buffer) noexcept;

}  // namespace kernbench::runtime
