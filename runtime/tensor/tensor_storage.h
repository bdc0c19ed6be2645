// What a Tensor handle refers to.

#pragma once

#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/context/simulation.h"
#include "runtime/tensor/data_under_way.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tl/access_rule.h"

namespace kernbench {

namespace autograd {
struct Meta;
struct View;
}  // namespace autograd

namespace runtime {

// What a tensor has in common with its views: the memory of the shards, and who uses it.
struct TensorMemory final : tl::AccessRule {
  explicit TensorMemory(std::shared_ptr<Simulation> of,
                        std::shared_ptr<const TensorMemory> whose_place = nullptr)
      : simulation(std::move(of)), place_of(std::move(whose_place)) {}
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;
  ~TensorMemory();

  const std::shared_ptr<Simulation> simulation;
  const std::shared_ptr<const TensorMemory> place_of;  // of a snapshot: whose addresses it has
  std::int64_t element_count = 0;                      // of the first tensor
  std::vector<sim::DeviceBuffer> buffers;              // beside each tensor's shards
  std::list<Tensor::Storage*> tensors;                 // that lie in it: the first, and its views

  sim::ElementRange elements() const { return {0, element_count}; }
  // The rule about data under way, for kernels (data_under_way.cpp).
  std::string obstacle(sim::RegionId region, const sim::ElementRange& elements,
                       bool is_written) const override;

  // A host read that waits for the end of what uses its tensor.
  struct Reader {
    Completion* woken = nullptr;
    const Tensor::Storage* tensor = nullptr;
  };
  std::vector<Reader> readers;
  int uses = 0;  // of all tensors that lie in it
  AccessesUnderWay accesses;
};

}  // namespace runtime

struct Tensor::Storage {
  Shape shape;
  DType dtype = DType::f32;
  std::string name;

  std::int64_t first = 0;  // the element of its memory with which it begins: 0 but for rows

  // A host tensor has its elements here, and nothing of what follows.
  std::shared_ptr<std::vector<float>> host;

  std::shared_ptr<runtime::Simulation> simulation;  // a tensor may outlive its context
  int device = 0;
  DPPolicy dp;
  std::vector<ShardInfo> shards;
  std::shared_ptr<runtime::TensorMemory> memory;
  int uses = 0;                              // by launches, copies and collectives under way
  std::vector<sim::DeviceBuffer> part;       // of a view of some elements: beside `shards`
  std::list<Storage*>::iterator in_memory;   // its place in memory->tensors
  std::shared_ptr<autograd::Meta> autograd;  // null: a leaf that needs no gradient
  std::shared_ptr<autograd::View> view;      // null: no view that autograd knows of

  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  bool is_host() const { return simulation == nullptr; }
  std::span<float> host_elements() const {
    return std::span(*host).subspan(static_cast<std::size_t>(first),
                                    static_cast<std::size_t>(shape.numel()));
  }
  // Of its memory, as one tensor counts them.
  sim::ElementRange elements() const { return {first, shape.numel()}; }
  const std::vector<sim::DeviceBuffer>& buffers() const {
    return part.empty() ? memory->buffers : part;
  }
  void begin_use() {
    ++uses;
    ++memory->uses;
  }
  void end_use();
};

namespace runtime {

// Whether two tensors have elements in common: they lie in the same memory, and are no different
// rows of it.
bool share_elements(const Tensor::Storage& a, const Tensor::Storage& b);

// Makes a tensor on a device: places and allocates its shards.  Their contents are as in a region
// that was never written.
std::shared_ptr<Tensor::Storage> make_device_storage(std::shared_ptr<Simulation> simulation,
                                                     int device, const Shape& shape,
                                                     const TensorOptions& options);

// A tensor in the memory of `base`, of another shape; `dp` and `shards` say which of its elements
// each holder has: as many as of the base.  It needs no gradient.
std::shared_ptr<Tensor::Storage> make_view_storage(const Tensor::Storage& base, const Shape& shape,
                                                   const DPPolicy& dp,
                                                   std::vector<ShardInfo> shards);

// The tensor as it is now, at the same addresses: what is written to it afterwards does not change
// the snapshot.  It takes no simulated time and no memory of the device (ADR-0151).
Tensor snapshot_of(const Tensor& tensor);
// Element `index` of the first dimension, in the same memory: of a matrix a row.  Where that
// dimension is cut, only the holders that have it are holders of the view.  It needs no gradient.
// REQUIRES: there is such a dimension, and it has this index
Tensor row_of(const Tensor& tensor, std::int64_t index);

// True if a tensor does not lie on the first cubes and PEs, as every policy says: a row of one that
// is cut along its first dimension.
bool lies_apart(const Tensor::Storage& storage);

std::shared_ptr<Tensor::Storage> make_host_storage(const Shape& shape, std::vector<float> elements);

// Whether a shard adds to the tensor's value: of copies, only the first does.
bool contributes(const Tensor::Storage& storage, const ShardInfo& shard);

// Whether the tensor is partial: its value is the sum of its holders'.
bool is_sum(const Tensor::Storage& storage);

// Whether a value that is written into a partial tensor is 0 on this holder: the first one gets it.
bool holds_summand_zero(const Tensor::Storage& storage, std::size_t shard);

// The holders of a partial tensor, and of its views, have the whole value from now on.
void mark_replicated(const Tensor::Storage& storage);

// How many writes its memory has seen: the version of what a tensor and its views read.
std::uint64_t version_of(const Tensor::Storage& storage);

// Throws DeviceError unless the tensor lies on a device: KB-M001 undefined, KB-M019 on the host.
// `user` is what wants to use it.
void check_on_device(const Tensor& tensor, std::string_view user);

// Sets every element to `value`, outside simulated time.
void fill(Tensor::Storage& storage, float value);

}  // namespace runtime
}  // namespace kernbench
