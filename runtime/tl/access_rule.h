// What decides, for a tensor that is no argument of a launch, whether its kernels may use it.

#pragma once

#include <string>

#include "sim_engine/data/region_id.h"

namespace kernbench::sim {
struct ElementRange;
}  // namespace kernbench::sim

namespace kernbench::tl {

class AccessRule {
 public:
  // Names what forbids a kernel to read, or to write, these elements of a region at present: "which
  // all_reduce#0 ([4] Float SUM) at ddp.cpp:41 is to write"; "": nothing does.
  virtual std::string obstacle(sim::RegionId region, const sim::ElementRange& elements,
                               bool is_written) const = 0;

 protected:
  ~AccessRule() = default;
};

}  // namespace kernbench::tl
