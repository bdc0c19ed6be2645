// Sees what a kernel loads and stores.

#pragma once

#include <string>

#include "runtime/fiber/function_ref.h"
#include "sim_engine/values/device_buffer.h"

namespace kernbench::sim {
struct ElementRange;
}  // namespace kernbench::sim

namespace kernbench::tl {

class AccessWatch {
 public:
  // The kernel is about to touch these elements of a tensor.  `where` says "tl.store in kernel 'k'
  // on sip0.cube0.pe0".  An exception from here ends the kernel.
  virtual void access(sim::RegionId region, const sim::ElementRange& elements, bool is_written,
                      const std::string& tensor, runtime::FunctionRef<std::string()> where) = 0;

 protected:
  ~AccessWatch() = default;
};

}  // namespace kernbench::tl
