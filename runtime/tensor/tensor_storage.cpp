#include "runtime/tensor/tensor_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/tensor/describe.h"
#include "runtime/tensor/host_read.h"
#include "runtime/tensor/memory_space.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench {

Tensor::Storage::~Storage() {
  if (memory == nullptr) return;
  memory->tensors.erase(in_memory);
  if (memory->in_queue && memory->in_queue->at->first == this) {
    memory->in_queue->at->first = memory->tensors.empty() ? nullptr : memory->tensors.front();
  }
}

void Tensor::Storage::end_use() {
  --memory->uses;
  if (--uses > 0) return;
  for (const auto& reader : std::exchange(memory->readers, {})) reader.woken->signal();
}

namespace runtime {

TensorMemory::~TensorMemory() {
  if (has_own_space(*this)) free_space(*this);
  for (const sim::DeviceBuffer& buffer : buffers) {
    simulation->machine().memory().destroy_region(buffer.region);
  }
}

bool share_elements(const Tensor::Storage& a, const Tensor::Storage& b) {
  return &a == &b || (a.memory == b.memory && overlap(a.elements(), b.elements()));
}

namespace {

// True if holders have copies of the same elements.  A scalar is never split.
bool is_copied(const Tensor::Storage& storage, Shard shard) {
  return shard == Shard::replicate || (is_sharded(shard) && storage.shape.rank() == 0);
}

}  // namespace

bool contributes(const Tensor::Storage& storage, const ShardInfo& shard) {
  const ShardInfo& first = storage.shards.front();
  return (shard.cube == first.cube || !is_copied(storage, storage.dp.cube)) &&
         (shard.pe == first.pe || !is_copied(storage, storage.dp.pe));
}

bool lies_apart(const Tensor::Storage& storage) {
  const ShardInfo& first = storage.shards.front();
  return first.cube != 0 || first.pe != 0;
}

bool is_sum(const Tensor::Storage& storage) {
  return is_partial(storage.dp);
}

std::shared_ptr<Tensor::Storage> make_unplaced_storage(std::shared_ptr<Simulation> simulation,
                                                       int device, const Shape& shape,
                                                       const TensorOptions& options) {
  const DType dtype = options.dtype.value_or(DType::f32);
  if (!is_enumerator(dtype, kAllDTypes.size())) {
    throw DeviceError("KB-M014",
                      "tensor '{}' of dtype {}: there is none of that number; there are: {}",
                      visible(options.name), number_of(dtype), all_dtypes());
  }
  auto storage = std::make_shared<Tensor::Storage>();
  storage->shape = shape;
  storage->dtype = dtype;
  storage->name = visible(options.name);  // the name goes into messages
  storage->device = device;
  storage->dp = options.dp.for_rank(shape.rank());
  storage->shards =
      place(storage->dp, shape, simulation->machine().topology(), device, options.num_sips);
  storage->simulation = std::move(simulation);
  storage->memory = std::make_shared<TensorMemory>(storage->simulation);
  storage->memory->element_count = shape.numel();
  storage->memory->kind = storage->simulation->local().makes.value_or(MemoryKind::temporary);
  storage->in_memory =
      storage->memory->tensors.insert(storage->memory->tensors.end(), storage.get());
  sim::MemoryStore& regions = storage->simulation->machine().memory();
  for (const ShardInfo& shard : storage->shards) {
    const std::int64_t count = shard.shape.numel();
    storage->memory->buffers.push_back({regions.create_region(dtype, count),
                                        {shard.sip, shard.cube, shard.pe},
                                        shard.address,
                                        dtype,
                                        count});
  }
  return storage;
}

std::shared_ptr<Tensor::Storage> make_device_storage(std::shared_ptr<Simulation> simulation,
                                                     int device, const Shape& shape,
                                                     const TensorOptions& options) {
  auto storage = make_unplaced_storage(std::move(simulation), device, shape, options);
  take_space(*storage->memory);
  return storage;
}

namespace {

// Makes a tensor in this memory with the base's name, type and device.
std::shared_ptr<Tensor::Storage> make_storage_in(std::shared_ptr<TensorMemory> memory,
                                                 const Tensor::Storage& base, const Shape& shape,
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
  storage->memory = std::move(memory);
  storage->in_memory =
      storage->memory->tensors.insert(storage->memory->tensors.end(), storage.get());
  return storage;
}

}  // namespace

std::shared_ptr<Tensor::Storage> make_view_storage(const Tensor::Storage& base, const Shape& shape,
                                                   const DPPolicy& dp,
                                                   std::vector<ShardInfo> shards) {
  auto view = make_storage_in(base.memory, base, shape, dp, std::move(shards));
  view->first = base.first;
  view->span = base.span;
  view->part = base.part;
  return view;
}

void set_data(Tensor::Storage& tensor, const Tensor::Storage& data) {
  begin_host_write(tensor);
  KB_CHECK(tensor.shape == data.shape && tensor.uses == 0,
           "the data of tensor '{}' cannot be exchanged", tensor.name);
  mark_memory(*data.memory, tensor.memory->kind);
  tensor.memory->tensors.erase(tensor.in_memory);
  tensor.dtype = data.dtype;
  tensor.device = data.device;
  tensor.dp = data.dp;
  tensor.shards = data.shards;
  tensor.memory = data.memory;
  tensor.part = data.part;
  tensor.first = data.first;
  tensor.in_memory = tensor.memory->tensors.insert(tensor.memory->tensors.begin(), &tensor);
}

Tensor take_snapshot(const Tensor& tensor) {
  const Tensor::Storage& base = *tensor.storage();
  sim::MemoryStore& store = base.simulation->machine().memory();
  auto memory = std::make_shared<TensorMemory>(base.simulation, base.memory);
  memory->has_space = true;
  memory->element_count = base.shape.numel();
  for (const sim::DeviceBuffer& buffer : base.buffers()) {
    sim::DeviceBuffer& copy = memory->buffers.emplace_back(buffer);
    copy.region = store.create_region(buffer.dtype, buffer.element_count);
    copy.address += buffer.first * size_of(buffer.dtype);
    copy.first = 0;
    store.store(copy.region, 0, store.load(buffer.region, buffer.first, buffer.element_count));
  }
  return Tensor(make_storage_in(std::move(memory), base, base.shape, base.dp, base.shards));
}

std::shared_ptr<Tensor::Storage> make_host_storage(const Shape& shape, HostElements elements,
                                                   DType dtype) {
  auto storage = std::make_shared<Tensor::Storage>();
  storage->shape = shape;
  storage->dtype = dtype;
  storage->name = "host tensor";
  storage->host = std::make_shared<HostElements>(std::move(elements));
  return storage;
}

void check_on_device(const Tensor& tensor, std::string_view user) {
  if (!tensor.defined()) {
    throw DeviceError("KB-M001", "{}: a tensor is not defined", user);
  }
  if (tensor.is_host()) {
    throw DeviceError(
        "KB-M019",
        "{}: a host tensor cannot take part: make it on the device by options, such as "
        "torch.tensor({{1, 2}}, {{2}}, {{.dtype = {}}}), or x.copy_(it) into one made by zeros, "
        "full, "
        "...",
        user, words_for(tensor.dtype()));
  }
  const Tensor::Storage& storage = *tensor.storage();
  const auto name = [&] { return describe_name(storage); };
  check_outside_kernels(*storage.simulation, user, name);
  check_lives(*storage.simulation, user, name);
  check_has_space(storage, user);
}

void check_on_device(const Tensor& tensor, const Simulation& simulation, std::string_view user,
                     DescribeObject beside) {
  check_on_device(tensor, user);
  const Tensor::Storage& storage = *tensor.storage();
  check_same_context(
      *storage.simulation, simulation, user, [&] { return describe_name(storage); }, beside);
}

std::string describe_name(const Tensor::Storage& storage) {
  return fmt::format("tensor '{}'", storage.name);
}

void mark_replicated(const Tensor::Storage& storage) {
  for (Tensor::Storage* tensor : storage.memory->tensors) tensor->dp = summed(tensor->dp);
}

std::uint64_t TensorMemory::write_count() const {
  const sim::MemoryStore& memory = simulation->machine().memory();
  std::uint64_t writes = 0;
  for (const sim::DeviceBuffer& buffer : buffers) writes += memory.write_count(buffer.region);
  return writes;
}

bool is_written_after(Tensor::Storage& storage, std::uint64_t write) {
  if (storage.memory->undecided > 0) {
    wait_until_unused(storage, [&] { return fmt::format("what may write '{}'", storage.name); });
  }
  return storage.memory->last_write > write;
}

std::int64_t handles_of_host(const Tensor::Storage& tensor) {
  return tensor.weak_from_this().use_count() - tensor.queued_handles;
}

bool has_other_users(const Tensor& tensor) {
  const Tensor::Storage& storage = *tensor.storage();
  const auto& tensors = storage.memory->tensors;
  return handles_of_host(storage) - storage.deferred_handles > 1 ||
         storage.memory.use_count() > std::ssize(tensors) ||
         std::ranges::any_of(tensors, [&](const Tensor::Storage* other) {
           return other != &storage && handles_of_host(*other) > other->deferred_handles;
         });
}

void begin_host_write(Tensor::Storage& storage) {
  compute_before_write(*storage.memory);
  if (storage.memory->uses > 0 && storage.simulation->queues_launches()) {
    wait_until_unused(storage, [&] { return fmt::format("the launches on '{}'", storage.name); });
  }
  storage.memory->note_write(storage.simulation->next_write());
}

void fill(Tensor::Storage& storage, const Scalar& value) {
  begin_host_write(storage);
  sim::MemoryStore& memory = storage.simulation->machine().memory();
  for (std::size_t i = 0; i < storage.buffers().size(); ++i) {
    const sim::DeviceBuffer& buffer = storage.buffers()[i];
    const Scalar summand = holds_summand_zero(storage, i) ? Scalar(0) : value;
    memory.store(buffer.region, buffer.first,
                 memory.constant(buffer.dtype, buffer.element_count, summand));
  }
}

bool holds_summand_zero(const Tensor::Storage& storage, std::size_t shard) {
  const ShardInfo& info = storage.shards[shard];
  const ShardInfo& first = storage.shards.front();
  return (storage.dp.cube == Shard::partial && info.cube != first.cube) ||
         (storage.dp.pe == Shard::partial && info.pe != first.pe);
}

}  // namespace runtime
}  // namespace kernbench
