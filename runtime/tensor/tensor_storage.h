// The state that a Tensor handle refers to.

#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/simulation/gate.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/data_under_way.h"
#include "runtime/tensor/deferred_value.h"
#include "runtime/tensor/held_memory.h"
#include "runtime/tensor/host_elements.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tl/access_rule.h"

namespace kernbench {

namespace autograd {
struct Meta;
struct View;
}  // namespace autograd

namespace distributed {
struct ShardSpec;
}  // namespace distributed

namespace runtime {

// The state that a tensor shares with its views: the memory of the shards, and its users.
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
  std::vector<sim::DeviceBuffer> buffers;              // one for each shard of the first tensor
  bool has_space = false;                   // false after free_space(), and before take_space()
  MemoryKind kind = MemoryKind::temporary;  // set by mark_memory()
  std::uint64_t made = 0;                   // the number of its allocation
  std::shared_ptr<DeferredValue> deferred;  // null: its value is there, or is being computed
  std::vector<DeferredValue*> deferred_readers;  // the deferred values that read its elements
  bool is_first_write = false;                   // true while its deferred value is computed
  std::list<Tensor::Storage*> tensors;           // in this memory: the first, and its views

  sim::ElementRange elements() const { return {0, element_count}; }
  // Applies the rule about data under way to a kernel's access (data_under_way.cpp).
  std::string obstacle(sim::RegionId region, const sim::ElementRange& elements,
                       bool is_written) const override;

  // A host read that waits until nothing uses its tensor any more.
  struct Reader {
    Completion* woken = nullptr;
    const Tensor::Storage* tensor = nullptr;
  };
  std::vector<Reader> readers;
  int uses = 0;  // summed over all tensors in this memory

  // Simulation::next_write() of the last operation in the order of issue that writes it, as far as
  // that is known; queued launches that may write it, which is known when they are done.
  std::uint64_t last_write = 0;
  int undecided = 0;
  // The first and last numbers of writes that change nothing.  There are several where a host has
  // queued more of them than the device has done.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> restores;
  void note_write(std::uint64_t write) {
    for (const auto& [first, last] : restores) {
      if (write >= first && write <= last) return;
    }
    last_write = std::max(last_write, write);
  }
  std::uint64_t write_count() const;  // stores so far

  // A queued launch calls these when it begins and ends to hold the memory (memory_space.cpp).
  void begin_queued();
  void end_queued();

  struct Queued {
    TensorMemory* memory = nullptr;
    const Tensor::Storage* first = nullptr;  // of its tensors; null if they are gone
  };
  using List = std::list<Queued>;
  struct Place {
    std::shared_ptr<List> list;  // of the simulation, whose context may end before
    List::iterator at;
  };
  int queued = 0;                 // launches
  std::optional<Place> in_queue;  // until it is given up

  RunLog::Id logged = RunLog::kNone;  // of its last place
  AccessesUnderWay accesses;
  const ListedMemory listed{*this};
};

}  // namespace runtime

struct Tensor::Storage : std::enable_shared_from_this<Tensor::Storage> {
  // Handles that are held by queued launches alone, and by deferred values.  They lie beside the
  // count of all handles, since each new tensor looks at the three of all that are queued.
  int queued_handles = 0;
  int deferred_handles = 0;

  Shape shape;
  DType dtype = DType::f32;
  std::string name;

  std::int64_t first = 0;  // index of its first element in the memory; 0 except for parts of it

  // The elements of a strided view lie among `span` elements of the memory, from `first` on.  It is
  // 0 for other tensors.
  std::int64_t span = 0;

  // The elements of a host tensor, which uses none of the fields below.
  std::shared_ptr<runtime::HostElements> host;

  std::shared_ptr<runtime::Simulation> simulation;  // a tensor may outlive its context
  int device = 0;
  DPPolicy dp;
  std::vector<ShardInfo> shards;
  std::shared_ptr<runtime::TensorMemory> memory;
  int uses = 0;                              // by launches, copies and collectives under way
  std::vector<sim::DeviceBuffer> part;       // of a part of the memory: its buffers, by shard
  std::list<Storage*>::iterator in_memory;   // position in memory->tensors
  std::shared_ptr<autograd::Meta> autograd;  // null: a leaf that needs no gradient
  std::shared_ptr<autograd::View> view;      // null: autograd knows of no view
  std::shared_ptr<const distributed::ShardSpec> shard_of;  // null: no rank's shard of a parameter

  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  bool is_host() const { return simulation == nullptr; }
  // The range of the memory that this tensor's elements occupy, or that they lie in.
  sim::ElementRange elements() const { return {first, span > 0 ? span : shape.numel()}; }
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

// True if two tensors have elements in common: they lie in the same memory, and are not different
// parts of it.
bool share_elements(const Tensor::Storage& a, const Tensor::Storage& b);

// Makes a tensor on a device: places and allocates its shards.  Their contents are those of a
// region that was never written.
std::shared_ptr<Tensor::Storage> make_device_storage(std::shared_ptr<Simulation> simulation,
                                                     int device, const Shape& shape,
                                                     const TensorOptions& options);

// Does the same without a place in HBM, until take_space().
std::shared_ptr<Tensor::Storage> make_unplaced_storage(std::shared_ptr<Simulation> simulation,
                                                       int device, const Shape& shape,
                                                       const TensorOptions& options);

// Makes a view with another shape in the memory of `base`.  `dp` and `shards` say which of its
// elements each holder has; each holder has as many as of the base.  The view needs no gradient.
std::shared_ptr<Tensor::Storage> make_view_storage(const Tensor::Storage& base, const Shape& shape,
                                                   const DPPolicy& dp,
                                                   std::vector<ShardInfo> shards);

// Returns the tensor's present values at the same addresses; later writes to the tensor do not
// change the snapshot.  It takes no simulated time and no memory of the device (ADR-0151).
Tensor take_snapshot(const Tensor& tensor);
// Returns element `index` of the first dimension, such as a row of a matrix, in the same memory.
// Where that dimension is split, only its holders hold the view.  The view needs no gradient.
// REQUIRES: there is such a dimension, and it has this index
Tensor make_row_view(const Tensor& tensor, std::int64_t index);

// Gives a tensor the memory, type and placement of another one of its shape; all handles to it see
// that (torch's x.data = y).  Waits for queued launches that use it.
// REQUIRES: neither is a view or has views, and no operation under way uses them
void set_data(Tensor::Storage& tensor, const Tensor::Storage& data);
// True if the elements that a tensor has between two indices of a dimension follow each other in
// the memory of each holder.
bool has_stretches(const Tensor& tensor, std::size_t dimension);
// Returns elements [start, start + length) along a dimension, in the same memory.  The view needs
// no gradient.
// REQUIRES: has_stretches(); the dimension is not cut and has these elements
Tensor make_stretch_view(const Tensor& tensor, std::size_t dimension, std::int64_t start,
                         std::int64_t length);

// True if a tensor does not lie on the first cubes and PEs, as every policy implies: it is a row
// of a tensor that is split along its first dimension.
bool lies_apart(const Tensor::Storage& storage);

std::shared_ptr<Tensor::Storage> make_host_storage(const Shape& shape, HostElements elements,
                                                   DType dtype = DType::f32);

// True if a shard adds to the tensor's value; of several copies only the first does.
bool contributes(const Tensor::Storage& storage, const ShardInfo& shard);

// True if the tensor is partial: its value is the sum of its holders' values.
bool is_sum(const Tensor::Storage& storage);

// True if this holder gets 0 when a value is written into a partial tensor; the first holder gets
// the value.
bool holds_summand_zero(const Tensor::Storage& storage, std::size_t shard);

// Records that the holders of a partial tensor, and of its views, have the whole value from now
// on.
void mark_replicated(const Tensor::Storage& storage);

// True if an operation writes the tensor's memory that was issued after `write`, a
// Simulation::last_write().  Waits for queued launches of which that is not known.
bool is_written_after(Tensor::Storage& storage, std::uint64_t write);

// The number of handles to a tensor that are not those of queued launches.
std::int64_t handles_of_host(const Tensor::Storage& tensor);
// True if somebody else has a handle to the tensor or to another tensor in its memory.  Queued
// launches do not count, since what is issued later follows them; nor do deferred values, which are
// computed before what they read is written.
bool has_other_users(const Tensor& tensor);

// The gate of tensors (runtime/simulation/gate.h).  Throws DeviceError unless the tensor lies on a
// device: KB-M001 undefined, KB-M019 on the host; CollectiveError KB-A019 without a place, KB-R012
// inside a kernel, KB-R013 if its context has ended.  `user` names the operation that uses it.
void check_on_device(const Tensor& tensor, std::string_view user);
// Does the same, and throws KB-M013 for a tensor of another context than that of the object that
// `beside` names.
void check_on_device(const Tensor& tensor, const Simulation& simulation, std::string_view user,
                     DescribeObject beside = {});
// Text for messages: "tensor 'x'".
std::string describe_name(const Tensor::Storage& storage);

// The host is about to write the tensor, outside simulated time: waits for queued launches that use
// it.
void begin_host_write(Tensor::Storage& storage);
// Sets every element to `value`, rounded to f32 or a whole number, outside simulated time.
void fill(Tensor::Storage& storage, const Scalar& value);
// Sets the elements, row by row, outside simulated time.  A partial tensor has them as its value.
// REQUIRES: there are as many as the tensor has
void set_elements(Tensor::Storage& storage, const HostElements& elements);

}  // namespace runtime
}  // namespace kernbench
