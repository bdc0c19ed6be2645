// Lists who holds the HBM of a device, for errors and summaries.

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "sim_engine/topology/location.h"

namespace kernbench::runtime {

class Simulation;
struct RunTensor;
struct TensorMemory;

// A member of each tensor's memory, by which the list of holders is made.
class ListedMemory {
 public:
  struct List {
    std::list<const TensorMemory*> memories;
    std::uint64_t events = 0;  // allocations and frees so far
  };

  explicit ListedMemory(const TensorMemory& memory);
  ~ListedMemory() { list_->memories.erase(place_); }
  ListedMemory(const ListedMemory&) = delete;
  ListedMemory& operator=(const ListedMemory&) = delete;

  // Numbers the allocations and frees of tensors.
  std::uint64_t next_event() const { return ++list_->events; }

 private:
  const std::shared_ptr<List> list_;  // of the simulation, whose context may end before
  const std::list<const TensorMemory*>::const_iterator place_;
};

inline constexpr const char* kQueues = "queues of collectives and kernels";

// Returns the tensors that held a device's HBM when that held most, in the order of their creation,
// as the run log has noted them.  Those that were made before it began are not among them.
std::vector<RunTensor> held_at_peak(Simulation& simulation, int device);

// Lists what tensors and queues hold of a device's HBM: a line for each of the `most` names that
// hold most, "\n 4096 B: 2 times 'w'", and one for all others.
std::string holders_of_device(Simulation& simulation, int device, std::size_t most);
// The same for the HBM slice of a PE, without queues.
std::string holders_of_slice(Simulation& simulation, const sim::PeLocation& pe, std::size_t most);

}  // namespace kernbench::runtime
