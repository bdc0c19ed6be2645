#include "runtime/optim/fused_update.h"

#include <algorithm>
#include <utility>

#include "runtime/ops/device_kernel.h"

namespace kernbench::optim {

namespace {

void check(std::string_view name, const Update& update) {
  ops::check_operands(name, {update.parameter, update.gradient});
  if (ops::placement_of(update.parameter) == ops::placement_of(update.gradient)) return;
  ops::refuse_placements(name, update.parameter, update.gradient,
                         "a gradient must lie as its parameter does; a partial one is a sum over "
                         "holders: all_reduce it first");
}

// A kernel runs on the PEs that hold elements of its first tensor, so all must have elements there.
bool share_kernel(const Update& a, const Update& b) {
  const auto has_elements = [](const ShardInfo& shard) { return shard.shape.numel() > 0; };
  return a.parameter.dtype() == b.parameter.dtype() &&
         ops::placement_of(a.parameter).has_holders_of(ops::placement_of(b.parameter)) &&
         std::ranges::equal(a.parameter.shards(), b.parameter.shards(), {}, has_elements,
                            has_elements);
}

tl::Tensor load(tl::Context& tl, const tl::Pointer& data, std::int64_t size) {
  return tl.cast(tl.load(data, {size}, data.dtype()), DType::f32);
}

void store(tl::Context& tl, const tl::Pointer& data, const tl::Tensor& value) {
  tl.store(data, tl.cast(value, data.dtype()));
}

void update_part(tl::Context& tl, const Update& update, UpdateFunction function) {
  const ops::LocalPart parameter = ops::local_part(update.parameter, tl);
  const tl::Pointer gradient = ops::local_part(update.gradient, tl).data;
  std::vector<tl::Pointer> state;
  for (const Tensor& tensor : update.state) state.push_back(ops::local_part(tensor, tl).data);
  ops::for_each_block(
      parameter.shape.numel(), ops::block_elements(tl), [&](std::int64_t begin, std::int64_t size) {
        UpdateBlocks blocks{
            load(tl, parameter.data + begin, size), load(tl, gradient + begin, size), {}};
        for (const tl::Pointer& data : state) blocks.state.push_back(load(tl, data + begin, size));
        function(tl, update.numbers, blocks);
        store(tl, parameter.data + begin, blocks.parameter);
        for (std::size_t i = 0; i < state.size(); ++i) {
          store(tl, state[i] + begin, blocks.state[i]);
        }
      });
}

void launch(std::string_view name, std::vector<Update> updates, UpdateFunction function) {
  std::vector<Tensor> written;
  std::vector<Tensor> read;
  for (const Update& update : updates) {
    written.push_back(update.parameter);
    written.insert(written.end(), update.state.begin(), update.state.end());
    read.push_back(update.gradient);
  }
  ops::launch(name, written, read, [updates = std::move(updates), function](tl::Context& tl) {
    for (const Update& update : updates) update_part(tl, update, function);
  });
}

// Splits off the updates that share a kernel with the first one.
std::vector<Update> take_bucket(std::vector<Update>& updates) {
  const auto rest = std::ranges::stable_partition(
      updates,
      [first = updates.front()](const Update& other) { return share_kernel(first, other); });
  std::vector<Update> bucket(updates.begin(), rest.begin());
  updates.erase(updates.begin(), rest.begin());
  return bucket;
}

}  // namespace

void update(std::string_view name, std::vector<Update> updates, UpdateFunction function) {
  for (const Update& one : updates) check(name, one);
  while (!updates.empty()) launch(name, take_bucket(updates), function);
}

}  // namespace kernbench::optim
