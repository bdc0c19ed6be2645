// What a backend of torch.distributed provides.  The interface is declared here and implemented
// above (ccl), so that the runtime does not know which there is.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {

class RuntimeContext;

// torch.distributed.ReduceOp.
enum class ReduceOp : std::uint8_t { sum };

std::string_view name_of(ReduceOp op);

namespace distributed {

// Settings of a backend, opaque to the runtime (RuntimeOptions::ccl).
class BackendConfig {
 public:
  virtual ~BackendConfig() = default;
};

// One rank's call of a collective.
struct CollectiveCall {
  int rank = 0;
  std::uint64_t sequence = 0;   // of the collective in its group: 0, 1, ...
  std::uint64_t operation = 0;  // KernelResult::operation, the same on all ranks
};

// A collective blocks the calling rank until its part is done.  Ranks call at their own times; what
// they must agree on has been checked.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  virtual int world_size() const = 0;

  // Ranks that call each collective: all, or a single driver that calls for all of them.
  virtual int caller_count() const { return world_size(); }

  // x becomes the sum over ranks, in place, the same bits on all.  A partial placement becomes a
  // replicated one.
  virtual void all_reduce(const CollectiveCall& call, Tensor& x, ReduceOp op) = 0;

  // The group is about to be destroyed.  May throw what is wrong with how it was used.
  virtual void close() {}

  // Returns when every rank has called it.
  virtual void barrier(const CollectiveCall& call) = 0;
};

using BackendFactory = std::unique_ptr<Backend> (*)(RuntimeContext&, const BackendConfig*);

// The backends that init_process_group() knows.  Registering a name again changes nothing.
bool register_backend(std::string_view name, BackendFactory factory);
BackendFactory find_backend(std::string_view name);  // nullptr if there is none
std::vector<std::string> backend_names();

}  // namespace distributed
}  // namespace kernbench
