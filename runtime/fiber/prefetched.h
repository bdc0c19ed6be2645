#pragma once

namespace kernbench::runtime {

// The memory that a parked fiber will touch when it goes on.
class Prefetched {
 public:
  // Asks the host's memory for it: in stage 0 for what this object names, then for what that refers
  // to (1), and so on.  It must change nothing (sim::EventPrefetch).
  virtual void prefetch(int stage) const = 0;
  // The caller has asked for this many bytes of the object itself before stage 0.
  static constexpr int kOwn = 256;

 protected:
  ~Prefetched() = default;
};

}  // namespace kernbench::runtime
