#include "runtime/tensor/logical_value.h"

#include <algorithm>
#include <vector>

#include "runtime/tensor/slices.h"

namespace kernbench::runtime {

namespace {

// Elements that are consecutive both in the tensor and in a shard, limited to the requested range.
struct Run {
  std::int64_t in_tensor = 0;
  std::size_t shard = 0;
  std::int64_t in_shard = 0;
  std::int64_t count = 0;
};

// Adds the runs of one shard that lie in [first, first + count).
void add_runs(std::vector<Run>& runs, const Tensor::Storage& storage, std::size_t index,
              std::int64_t first, std::int64_t count) {
  for_each_run(storage.shape, storage.shards[index],
               [&](std::int64_t in_tensor, std::int64_t in_shard, std::int64_t length) {
                 const std::int64_t begin = std::max(in_tensor, first);
                 const std::int64_t end = std::min(in_tensor + length, first + count);
                 if (begin >= end) return;
                 runs.push_back({begin, index, in_shard + begin - in_tensor, end - begin});
               });
}

bool holds_all(const Tensor::Storage& storage, std::size_t index) {
  return storage.shards[index].shape == storage.shape;
}

sim::MemoryStore& memory_of(const Tensor::Storage& storage) {
  return storage.simulation->machine().memory();
}

void replicate_sum(Tensor::Storage& storage) {
  const sim::Value sum = load_block(storage, 0, storage.shape.numel());
  mark_replicated(storage);
  store_block(storage, 0, sum);
}

}  // namespace

sim::Value load_block(const Tensor::Storage& storage, std::int64_t first, std::int64_t count) {
  sim::MemoryStore& memory = memory_of(storage);
  if (!is_sum(storage) && holds_all(storage, 0)) {
    const sim::DeviceBuffer& buffer = storage.buffers().front();
    return memory.load(buffer.region, buffer.first + first, count);
  }
  std::vector<Run> runs;
  for (std::size_t i = 0; i < storage.shards.size(); ++i) {
    if (contributes(storage, storage.shards[i])) add_runs(runs, storage, i, first, count);
  }
  // Sorts summands so that those of the same elements follow each other, in the order of their
  // holders.
  std::ranges::stable_sort(runs, {}, &Run::in_tensor);
  std::vector<sim::Value> parts;
  std::int64_t end = first;
  for (const Run& run : runs) {
    const sim::DeviceBuffer& buffer = storage.buffers()[run.shard];
    const sim::Value part = memory.load(buffer.region, buffer.first + run.in_shard, run.count);
    if (run.in_tensor < end) {
      parts.back() = memory.math(sim::MathOp::add, parts.back(), part);
    } else {
      parts.push_back(part);
      end = run.in_tensor + run.count;
    }
  }
  if (parts.empty()) return memory.constant(storage.dtype, 0, 0);
  return parts.size() == 1 ? parts.front() : memory.concat(parts);
}

void store_block(Tensor::Storage& storage, std::int64_t first, const sim::Value& value) {
  storage.memory->note_write(storage.simulation->next_write());
  if (is_sum(storage)) replicate_sum(storage);
  sim::MemoryStore& memory = memory_of(storage);
  std::vector<Run> runs;
  for (std::size_t i = 0; i < storage.shards.size(); ++i) {
    if (holds_all(storage, i)) {
      const sim::DeviceBuffer& buffer = storage.buffers()[i];
      memory.store(buffer.region, buffer.first + first, value);
    } else {
      add_runs(runs, storage, i, first, value.element_count());
    }
  }
  for (const Run& run : runs) {
    const sim::DeviceBuffer& buffer = storage.buffers()[run.shard];
    memory.store(buffer.region, buffer.first + run.in_shard,
                 memory.slice(value, run.in_tensor - first, run.count));
  }
}

}  // namespace kernbench::runtime
