// Finds races between streams: two operations that nothing orders touch the same elements, one of
// them writing.  The simulated clock plays no part, so a program is refused wherever it runs.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "runtime/fiber/function_ref.h"
#include "runtime/simulation/attachments.h"
#include "runtime/stream/stream_clock.h"
#include "sim_engine/values/element_leases.h"
#include "sim_engine/values/memory_store.h"

namespace kernbench::runtime {

// The elements that an operation of a stream touches.
struct StreamAccess {
  StreamPosition by;
  std::shared_ptr<const std::string> what;  // "kernel 'add' at ddp.cpp:41"
  bool writes = false;
};

class StreamRaces final : public Attachment {
 public:
  // Accesses are recorded from now on, because somebody has a second stream.
  void watch() { is_watching_ = true; }
  // No accesses are recorded from now on: whoever wants times alone knows of no races.
  void ignore() { is_ignoring_ = true; }
  bool is_watching() const { return is_watching_ && !is_ignoring_; }

  // Records an access to a region of `memory`.  Throws DeviceError KB-M031 if it races with an
  // earlier one.  `tensor` is the name of the tensor, `where` says "tl.store in kernel 'k' on ...".
  void access(const sim::MemoryStore& memory, sim::RegionId region,
              const sim::ElementRange& elements, const StreamAccess& access,
              const std::string& tensor, FunctionRef<std::string()> where);

  void forget_ranks() override { regions_.clear(); }

 private:
  struct OfRegion {
    sim::RegionId region;
    sim::ElementLeases<StreamAccess> accesses;
  };

  void forget_freed(const sim::MemoryStore& memory);

  bool is_watching_ = false;
  bool is_ignoring_ = false;
  std::unordered_map<std::uint32_t, OfRegion> regions_;  // by index
  std::size_t forget_at_ = 1024;                         // number of regions
};

}  // namespace kernbench::runtime
