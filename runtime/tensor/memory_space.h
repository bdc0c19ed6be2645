// The place that a tensor's elements take in HBM, which can be given up while the tensor lives.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/location.h"

namespace kernbench::runtime {

// Returns false for a memory whose place was given up, and for one at another one's addresses.
bool has_own_space(const TensorMemory& memory);
// Notes in the run log that the tensor's memory has taken a place now.
void log_space(const Tensor::Storage& storage);

// Frees the place of a memory, for all tensors in it: their elements are lost, and operations on
// them are refused until take_space() has found another place (torch's
// untyped_storage().resize_(0)).  As with torch's caching allocator the place is free for what the
// host makes next, and it is the caller who orders the streams that use it.
void free_space(TensorMemory& memory);
// Throws DeviceError KB-M010, with the holders of the memory, when even what queued launches keep
// is given up and there is no room.
void take_space(TensorMemory& memory);

// Frees the places of a device's memories that nothing but queued launches holds any more, as
// torch's caching allocator frees a block when its last handle is gone: what takes it next runs
// behind them.  (A launch on another stream reads what it was given all the same, since values are
// in regions and not at addresses.)  To be called before memory is taken or counted.
void free_unheld_space(Simulation& simulation, int device);

// The memory is of this kind too; the strongest counts.
void mark_memory(TensorMemory& memory, MemoryKind kind);
void mark_memory(const Tensor& tensor, MemoryKind kind);
// Does this for a tensor that belongs to the module of another one, as an optimizer's state does.
void mark_memory_beside(const Tensor& tensor, const Tensor& beside, MemoryKind kind);
// It is an input, unless a MadeAs says otherwise.
void mark_as_made_by_user(const Tensor& tensor);

// While it lives, the caller's tensors are of this kind when they are made.
class [[nodiscard]] MadeAs {
 public:
  MadeAs(Simulation& simulation, MemoryKind kind);
  ~MadeAs() { local_.makes = before_; }
  MadeAs(const MadeAs&) = delete;
  MadeAs& operator=(const MadeAs&) = delete;

 private:
  FiberLocal& local_;
  const std::optional<MemoryKind> before_;
};

// Notes all tensors that have a place in the run log, if there is one and they are not noted.
void log_held_memory(Simulation& simulation);

// Throws CollectiveError KB-A019 for a tensor without a place, unless its value is deferred.
void check_has_space(const Tensor::Storage& storage, std::string_view user);

// While it lives, what is issued writes elements into a memory that it had before.  Autograd
// therefore does not count it as a change (torch.autograd._unsafe_preserve_version_counter).
class PreservedVersion {
 public:
  explicit PreservedVersion(TensorMemory& memory);
  ~PreservedVersion();
  PreservedVersion(const PreservedVersion&) = delete;
  PreservedVersion& operator=(const PreservedVersion&) = delete;

 private:
  TensorMemory& memory_;
};

}  // namespace kernbench::runtime
