// Lists who holds the HBM of a device, for errors and summaries.

#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "sim_engine/topology/location.h"

namespace kernbench::runtime {

class Simulation;
struct TensorMemory;

// A member of each tensor's memory, by which the list of holders is made.
class ListedMemory {
 public:
  using List = std::list<const TensorMemory*>;

  explicit ListedMemory(const TensorMemory& memory);
  ~ListedMemory() { list_->erase(place_); }
  ListedMemory(const ListedMemory&) = delete;
  ListedMemory& operator=(const ListedMemory&) = delete;

 private:
  const std::shared_ptr<List> list_;  // of the simulation, whose context may end before
  const List::const_iterator place_;
};

// Lists what tensors and queues hold of a device's HBM: a line for each of the `most` names that
// hold most, "\n 4096 B: 2 times 'w'", and one for all others.
std::string holders_of_device(Simulation& simulation, int device, std::size_t most);
// The same for the HBM slice of a PE, without queues.
std::string holders_of_slice(Simulation& simulation, const sim::PeLocation& pe, std::size_t most);

}  // namespace kernbench::runtime
