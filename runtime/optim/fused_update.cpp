#include "runtime/optim/fused_update.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/ops/device_kernel.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::optim {

namespace {

void check(std::string_view name, const Tensor& parameter, const Tensor& gradient) {
  if (ops::placement_of(parameter) == ops::placement_of(gradient)) return;
  ops::refuse_placements(name, parameter, gradient,
                         "a gradient must lie as its parameter does; a partial one is a sum over "
                         "holders: all_reduce it first");
}

// A kernel runs on the PEs that hold elements of its first tensor, so all must have elements there.
bool share_kernel(const Tensor& a, const Tensor& b) {
  const auto has_elements = [](const ShardInfo& shard) { return shard.shape.numel() > 0; };
  return a.dtype() == b.dtype() && ops::placement_of(a).has_holders_of(ops::placement_of(b)) &&
         std::ranges::equal(a.shards(), b.shards(), {}, has_elements, has_elements);
}

// Splits off the items that share a kernel with the first one.
template <class Item, class Shares>
std::vector<Item> take_bucket(std::vector<Item>& items, const Shares& shares) {
  const auto rest = std::ranges::stable_partition(
      items, [&, first = items.front()](const Item& other) { return shares(first, other); });
  std::vector<Item> bucket(items.begin(), rest.begin());
  items.erase(items.begin(), rest.begin());
  return bucket;
}

tl::Tensor load(tl::Context& tl, const tl::Pointer& data, std::int64_t size) {
  return tl.cast(tl.load(data, {size}, data.dtype()), DType::f32);
}

void store(tl::Context& tl, const tl::Pointer& data, const tl::Tensor& value) {
  tl.store(data, tl.cast(value, data.dtype()));
}

// Calls visit(begin, size) for blocks of a PE's part.
template <class Visit>
void for_each_block_of(tl::Context& tl, const ops::LocalPart& part, const Visit& visit) {
  ops::for_each_block(part.shape.numel(), ops::block_elements(tl), visit);
}

void update_part(tl::Context& tl, const Update& update, UpdateFunction function) {
  const ops::LocalPart parameter = ops::local_part(update.parameter, tl);
  const tl::Pointer gradient = ops::local_part(update.gradient, tl).data;
  std::vector<tl::Pointer> state;
  for (const Tensor& tensor : update.state) state.push_back(ops::local_part(tensor, tl).data);
  for_each_block_of(tl, parameter, [&](std::int64_t begin, std::int64_t size) {
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

void launch(std::string_view name, std::vector<Assignment> bucket, AssignedFunction function) {
  std::vector<Tensor> written;
  std::vector<Tensor> read;
  for (const Assignment& one : bucket) {
    written.push_back(one.target);
    read.push_back(one.source);
  }
  ops::launch(name, written, read, [bucket = std::move(bucket), function](tl::Context& tl) {
    for (const auto& [target, source, number] : bucket) {
      const ops::LocalPart to = ops::local_part(target, tl);
      const tl::Pointer from = ops::local_part(source, tl).data;
      for_each_block_of(tl, to, [&](std::int64_t begin, std::int64_t size) {
        store(tl, to.data + begin, function(tl, load(tl, from + begin, size), number));
      });
    }
  });
}

// The placement of sums over a tensor's elements: partial where those are cut.
ops::Placement placement_of_sums(const Tensor& tensor) {
  return *ops::by_level(ops::placement_of(tensor), [](const ops::Level& level) {
    return std::optional(level.is_cut() ? ops::kPartial : level);
  });
}

tl::Tensor sum_of_part(tl::Context& tl, const Tensor& tensor, SummedFunction function) {
  const ops::LocalPart part = ops::local_part(tensor, tl);
  tl::Tensor sum = tl.zeros({1}, DType::f32);
  for_each_block_of(tl, part, [&](std::int64_t begin, std::int64_t size) {
    sum = sum + tl.sum(function(load(tl, part.data + begin, size)), 0, {.keep_dims = true});
  });
  return sum;
}

// Returns the sums of tensors that lie alike, [their number].
Tensor launch_sums(std::string_view name, const std::vector<Tensor>& tensors,
                   SummedFunction function) {
  const Tensor result =
      ops::make_like(tensors.front(), name, {static_cast<std::int64_t>(tensors.size())}, DType::f32,
                     placement_of_sums(tensors.front()));
  ops::launch(name, {result}, tensors, [tensors, result, function](tl::Context& tl) {
    std::vector<tl::Tensor> sums;
    for (const Tensor& tensor : tensors) sums.push_back(sum_of_part(tl, tensor, function));
    tl.store(ops::local_part(result, tl).data, tl.cat(sums));
  });
  return result;
}

// A module may have moved to another device since the optimizer's first step.
void check_is_beside(std::string_view name, const Tensor& parameter, const Tensor& kept) {
  if (!kept.defined() || kept.device() == parameter.device()) return;
  throw DeviceError("KB-F003",
                    "{}: '{}' lies on device {}, and its parameter '{}' on device {}; move a "
                    "module before its optimizer is made",
                    name, kept.name(), kept.device(), parameter.name(), parameter.device());
}

}  // namespace

void update(std::string_view name, std::vector<Update> updates, UpdateFunction function) {
  for (const Update& one : updates) {
    ops::check_operands(name, {one.parameter, one.gradient});
    check(name, one.parameter, one.gradient);
    for (const Tensor& kept : one.state) check_is_beside(name, one.parameter, kept);
  }
  while (!updates.empty()) {
    launch(name,
           take_bucket(updates,
                       [](const Update& a, const Update& b) {
                         return share_kernel(a.parameter, b.parameter);
                       }),
           function);
  }
}

void assign(std::string_view name, std::vector<Assignment> assignments, AssignedFunction function) {
  for (const Assignment& one : assignments) {
    ops::check_holders(name, {one.target, one.source});
    check(name, one.target, one.source);
  }
  while (!assignments.empty()) {
    launch(name,
           take_bucket(assignments,
                       [](const Assignment& a, const Assignment& b) {
                         return share_kernel(a.target, b.target);
                       }),
           function);
  }
}

std::vector<double> sums(std::string_view name, const std::vector<Tensor>& tensors,
                         SummedFunction function) {
  for (const Tensor& tensor : tensors) {
    runtime::check_on_device(tensor, name);
    ops::check_is_whole(name, tensor);
  }
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  struct Bucket {
    std::vector<std::size_t> of;
    Tensor sums;
  };
  std::vector<Bucket> buckets;
  while (!order.empty()) {
    Bucket& bucket = buckets.emplace_back();
    bucket.of = take_bucket(order, [&](std::size_t a, std::size_t b) {
      return placement_of_sums(tensors[a]) == placement_of_sums(tensors[b]);
    });
    std::vector<Tensor> summed;
    for (const std::size_t i : bucket.of) summed.push_back(tensors[i]);
    bucket.sums = launch_sums(name, summed, function);
  }
  std::vector<double> all(tensors.size());
  for (const auto& [of, result] : buckets) {
    if (!result.storage()->simulation->machine().memory().has_data()) continue;
    const std::vector<float> values = result.to_vector();
    for (std::size_t i = 0; i < of.size(); ++i) all[of[i]] = values[i];
  }
  return all;
}

}  // namespace kernbench::optim
