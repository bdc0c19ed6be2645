#include "runtime/tensor/tensor_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim_engine/base/error.h"

namespace kernbench {

Tensor::Storage::~Storage() {
  if (memory != nullptr) memory->tensors.erase(in_memory);
}

namespace runtime {

TensorMemory::~TensorMemory() {
  for (const sim::DeviceBuffer& buffer : buffers) {
    simulation->machine().memory().destroy_region(buffer.region);
    simulation->allocator(buffer.home.sip)
        .free(buffer.address, buffer.element_count * size_of(buffer.dtype));
  }
}

void TensorMemory::end_use() {
  if (--pending > 0) return;
  for (Completion* waiter : std::exchange(waiters, {})) waiter->signal();
}

namespace {

// Whether holders have copies of the same elements.  Nothing of a scalar can be cut.
bool is_copied(const Tensor::Storage& storage, Shard shard) {
  return shard == Shard::replicate || (is_sharded(shard) && storage.shape.rank() == 0);
}

}  // namespace

bool contributes(const Tensor::Storage& storage, const ShardInfo& shard) {
  return (shard.cube == 0 || !is_copied(storage, storage.dp.cube)) &&
         (shard.pe == 0 || !is_copied(storage, storage.dp.pe));
}

bool is_sum(const Tensor::Storage& storage) {
  return is_partial(storage.dp);
}

std::shared_ptr<Tensor::Storage> make_device_storage(std::shared_ptr<Simulation> simulation,
                                                     int device, const Shape& shape,
                                                     const TensorOptions& options) {
  auto storage = std::make_shared<Tensor::Storage>();
  storage->shape = shape;
  storage->dtype = options.dtype;
  storage->name = options.name;
  storage->device = device;
  storage->dp = options.dp;
  storage->shards =
      place(options.dp, shape, simulation->machine().topology(), device, options.num_sips);
  storage->simulation = std::move(simulation);
  storage->memory = std::make_shared<TensorMemory>(storage->simulation);
  storage->in_memory =
      storage->memory->tensors.insert(storage->memory->tensors.end(), storage.get());
  for (ShardInfo& shard : storage->shards) {
    const std::int64_t count = shard.shape.numel();
    shard.address = storage->simulation->allocator(shard.sip).allocate(
        shard.cube, shard.pe, count * size_of(options.dtype));
    storage->memory->buffers.push_back(
        {storage->simulation->machine().memory().create_region(options.dtype, count),
         {shard.sip, shard.cube, shard.pe},
         shard.address,
         options.dtype,
         count});
  }
  return storage;
}

std::shared_ptr<Tensor::Storage> make_view_storage(const Tensor::Storage& base, const Shape& shape,
                                                   const DPPolicy& dp,
                                                   std::vector<ShardInfo> shards) {
  auto storage = std::make_shared<Tensor::Storage>();
  storage->shape = shape;
  storage->dtype = base.dtype;
  storage->name = base.name;
  storage->device = base.device;
  storage->dp = dp;
  storage->shards = std::move(shards);
  storage->simulation = base.simulation;
  storage->memory = base.memory;
  storage->in_memory =
      storage->memory->tensors.insert(storage->memory->tensors.end(), storage.get());
  return storage;
}

std::shared_ptr<Tensor::Storage> make_host_storage(const Shape& shape,
                                                   std::vector<float> elements) {
  auto storage = std::make_shared<Tensor::Storage>();
  storage->shape = shape;
  storage->name = "host tensor";
  storage->host = std::move(elements);
  return storage;
}

void check_on_device(const Tensor& tensor, std::string_view user) {
  if (!tensor.defined()) {
    throw DeviceError("KB-M001", fmt::format("{}: a tensor is not defined", user));
  }
  if (tensor.is_host()) {
    throw DeviceError("KB-M019",
                      fmt::format("{}: a host tensor cannot take part; copy_ it into one "
                                  "made by zeros, full, ...",
                                  user));
  }
}

void mark_replicated(const Tensor::Storage& storage) {
  for (Tensor::Storage* tensor : storage.memory->tensors) tensor->dp = summed(tensor->dp);
}

std::uint64_t version_of(const Tensor::Storage& storage) {
  const sim::MemoryStore& memory = storage.simulation->machine().memory();
  std::uint64_t writes = 0;
  for (const sim::DeviceBuffer& buffer : storage.buffers()) {
    writes += memory.write_count(buffer.region);
  }
  return writes;
}

void fill(Tensor::Storage& storage, float value) {
  sim::MemoryStore& memory = storage.simulation->machine().memory();
  for (std::size_t i = 0; i < storage.buffers().size(); ++i) {
    const sim::DeviceBuffer& buffer = storage.buffers()[i];
    const float summand = holds_summand_zero(storage, i) ? 0.0F : value;
    memory.store(buffer.region, 0, memory.constant(buffer.dtype, buffer.element_count, summand));
  }
}

bool holds_summand_zero(const Tensor::Storage& storage, std::size_t shard) {
  const ShardInfo& info = storage.shards[shard];
  return (storage.dp.cube == Shard::partial && info.cube != 0) ||
         (storage.dp.pe == Shard::partial && info.pe != 0);
}

}  // namespace runtime
}  // namespace kernbench
