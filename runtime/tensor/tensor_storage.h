// What a Tensor handle refers to.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/context/simulation.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {

struct Tensor::Storage {
  Shape shape;
  DType dtype = DType::f32;
  std::string name;

  // A host tensor has its elements here, and nothing of what follows.
  std::vector<float> host;

  std::shared_ptr<runtime::Simulation> simulation;  // a tensor may outlive its context
  int device = 0;
  DPPolicy dp;
  std::vector<ShardInfo> shards;
  std::vector<sim::DeviceBuffer> buffers;  // beside `shards`

  // Launches, copies and collectives under way that use this tensor, and who waits for their end.
  int pending = 0;
  std::vector<runtime::Completion*> waiters;
  std::vector<const std::string*> works;  // what was issued with async_op and uses it

  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  bool is_host() const { return simulation == nullptr; }
  void begin_use() { ++pending; }
  void end_use();
};

namespace runtime {

// Makes a tensor on a device: places and allocates its shards.  Their contents are as in a region
// that was never written.
std::shared_ptr<Tensor::Storage> make_device_storage(std::shared_ptr<Simulation> simulation,
                                                     int device, const Shape& shape,
                                                     const TensorOptions& options);

std::shared_ptr<Tensor::Storage> make_host_storage(const Shape& shape, std::vector<float> elements);

// Whether a shard adds to the tensor's value: of copies, only the first does.
bool contributes(const Tensor::Storage& storage, const ShardInfo& shard);

// Whether the tensor is partial: its value is the sum of its holders'.
bool is_sum(const Tensor::Storage& storage);

// Whether a value that is written into a partial tensor is 0 on this holder: the first one gets it.
bool holds_summand_zero(const Tensor::Storage& storage, std::size_t shard);

// Sets every element to `value`, outside simulated time.
void fill(Tensor::Storage& storage, float value);

}  // namespace runtime
}  // namespace kernbench
