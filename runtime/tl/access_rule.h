// Decides whether kernels may use a tensor that is not an argument of their launch.

#pragma once

#include <string>

#include "sim_engine/values/device_buffer.h"

namespace kernbench::sim {
struct ElementRange;
}  // namespace kernbench::sim

namespace kernbench::tl {

class AccessRule {
 public:
  // Names the operation that at present forbids a kernel to read or write these elements of a
  // region: "which all_reduce#0 ([4] Float SUM) at ddp.cpp:41 is to write"; empty if none does.
  virtual std::string obstacle(sim::RegionId region, const sim::ElementRange& elements,
                               bool is_written) const = 0;

 protected:
  ~AccessRule() = default;
};

}  // namespace kernbench::tl
