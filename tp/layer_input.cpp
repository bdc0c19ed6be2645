#include "tp/layer_input.h"

#include <algorithm>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/launch/kernel_launch.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/topology/location.h"

namespace kernbench::tp {

namespace {

// Rows of a tensor, and the PEs that have them: copies to choose from, or summands.
struct SourceRows {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::vector<sim::PeLocation> holders;
};

std::vector<SourceRows> source_rows(const Tensor& x) {
  std::vector<SourceRows> all;
  for (const ShardInfo& shard : x.shards()) {
    if (shard.shape.numel() == 0 || !runtime::contributes(*x.storage(), shard)) continue;
    auto rows = std::ranges::find(all, shard.offset[0], &SourceRows::begin);
    if (rows == all.end()) {
      rows = all.insert(all.end(), SourceRows{shard.offset[0], shard.shape[0], {}});
    }
    rows->holders.push_back({shard.sip, shard.cube, shard.pe});
  }
  return all;
}

// True if a PE has all of x.
bool has_whole(const Tensor& x, const sim::PeLocation& pe) {
  const ops::Placement placement = ops::placement_of(x);
  return placement.cube.is_replicate() && placement.pe.is_replicate() &&
         std::ranges::any_of(x.shards(), [&](const ShardInfo& shard) {
           return sim::PeLocation{shard.sip, shard.cube, shard.pe} == pe;
         });
}

// Copies rows, or adds up their summands in f32, into a PE's part of the target.
void copy_rows(tl::Context& tl, const ops::LocalPart& target, const Tensor& x,
               const SourceRows& rows) {
  const std::int64_t row = target.shape.numel() / target.shape[0];
  const std::int64_t begin = std::max(rows.begin, target.offset[0]);
  const std::int64_t end = std::min(rows.begin + rows.count, target.offset[0] + target.shape[0]);
  ops::for_each_block(
      std::max<std::int64_t>(end - begin, 0) * row, ops::block_elements(tl),
      [&](std::int64_t at, std::int64_t size) {
        const auto loaded = [&](const sim::PeLocation& pe) {
          return tl.load(runtime::shard_pointer(x, pe) + (begin - rows.begin) * row + at, {size},
                         x.dtype());
        };
        tl::Tensor value = loaded(rows.holders.front());
        if (rows.holders.size() > 1) {
          value = tl.cast(value, DType::f32);
          for (std::size_t i = 1; i < rows.holders.size(); ++i) {
            value = value + tl.cast(loaded(rows.holders[i]), DType::f32);
          }
        }
        tl.store(target.data + (begin - target.offset[0]) * row + at, tl.cast(value, x.dtype()));
      });
}

// Returns x with another placement, on other PEs.
Tensor moved(const Tensor& x, const ops::Placement& placement) {
  const Tensor result = ops::make_like(x, "layer_input", x.shape(), x.dtype(), placement);
  ops::launch("layer_input", {result}, {x}, [x, result](tl::Context& tl) {
    const ops::LocalPart target = ops::local_part(result, tl);
    if (target.shape.numel() == 0) return;
    std::vector<SourceRows> sources = source_rows(x);
    if (has_whole(x, tl.location())) sources.front().holders.front() = tl.location();
    for (const SourceRows& rows : sources) copy_rows(tl, target, x, rows);
  });
  return result;
}

// True if the rows of x are whole, and can be moved to other PEs of its device.
bool has_whole_rows(const Tensor& x) {
  const ops::Placement placement = ops::placement_of(x);
  const std::size_t rank = x.shape().rank();
  const auto is_whole = [rank](const ops::Level& level) {
    return level.is_replicate() || (level.is_cut() && level.dimension == 0 && rank > 1);
  };
  return rank > 0 && x.numel() > 0 && is_whole(placement.cube) && is_whole(placement.pe);
}

}  // namespace

Tensor move_to_holders(const Tensor& x, const Tensor& weight) {
  runtime::check_on_device(x, *weight.storage()->simulation, "layer_input");
  const ops::Placement from = ops::placement_of(x);
  const ops::Placement holders = ops::placement_of(weight);
  const bool must_move = from.device == holders.device && !from.has_holders_of(holders);
  if (!must_move || !has_whole_rows(x)) return x;
  const ops::Placement everywhere{holders.device, holders.num_cubes, holders.num_pes, {}, {}};
  return autograd::record("layer_input", moved(x, everywhere), {x},
                          [from](const Tensor& dy) { return std::vector{moved(dy, from)}; });
}

Tensor layer_input(const Tensor& x, const Tensor& weight) {
  runtime::check_on_device(x, *weight.storage()->simulation, "layer_input");
  return move_to_holders(x.dtype() == weight.dtype() ? x : x.to(weight.dtype()), weight);
}

}  // namespace kernbench::tp
