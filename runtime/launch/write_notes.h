// Notes which tensors a launch has written, in the order of issue: queued launches run later
// (ADR-0190).

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor_storage.h"

namespace kernbench::runtime {

class WriteNotes {
 public:
  // Is called before the launch runs, which keeps its tensors.  `write` is its
  // Simulation::next_write().
  WriteNotes(const std::vector<Tensor>& uses, std::uint64_t write) : write_(write) {
    for (const Tensor& tensor : uses) {
      TensorMemory* const memory = tensor.storage()->memory.get();
      before_.emplace_back(memory, memory->write_count());
    }
  }
  // Is called when the launch's stores have ended.
  void end() const {
    for (const auto& [memory, count] : before_) {
      if (memory->write_count() != count) memory->note_write(write_);
    }
  }

 private:
  const std::uint64_t write_;
  std::vector<std::pair<TensorMemory*, std::uint64_t>> before_;
};

}  // namespace kernbench::runtime
