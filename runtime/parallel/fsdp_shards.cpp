#include "runtime/parallel/fsdp_shards.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/distributed/distributed.h"
#include "runtime/distributed/shard_spec.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed::fsdp {

void refuse(const std::string& text) {
  throw CollectiveError("KB-A020", text);
}

void check_parameter(const std::string& name, const Tensor& parameter, const Tensor& first) {
  const Tensor::Storage& storage = *parameter.storage();
  if (storage.shard_of != nullptr || (!storage.is_host() && !storage.memory->has_space)) {
    refuse(
        fmt::format("Parameter '{}' is shared with a parameter already managed by another FSDP "
                    "group, or fully_shard was called with an outer module before: call it from "
                    "the inside out",
                    name));
  }
  if (parameter.dim() == 0) {
    refuse(
        fmt::format("fully_shard doesn't support scalar parameters. Change {} to a 1D tensor "
                    "with numel equal to 1.",
                    name));
  }
  if (storage.memory->element_count != parameter.numel()) {
    refuse(
        fmt::format("fully_shard: parameter '{}' is a part of another tensor; clone() it", name));
  }
  const ops::Placement placement = ops::placement_of(parameter);
  const auto fits = [](const ops::Level& level) {
    return level.is_replicate() || level == ops::cut(0);
  };
  if (!fits(placement.cube) || !fits(placement.pe) ||
      !placement.has_holders_of(ops::placement_of(first))) {
    refuse(
        fmt::format("fully_shard: parameter '{}' has placement {}; parameters of one call lie on "
                    "the same PEs, each whole on all of them or cut by rows, such as with "
                    "DPPolicy::shared()",
                    name, to_string(placement)));
  }
  if (parameter.dtype() != first.dtype()) {
    refuse(
        fmt::format("FSDP expects uniform original parameter dtype but got {} for '{}' and {} "
                    "for others",
                    name_of(parameter.dtype()), name, name_of(first.dtype())));
  }
}

namespace {

// The PEs that share a parameter's rows.
int count_lanes(const Tensor& parameter) {
  const ops::Placement placement = ops::placement_of(parameter);
  return (placement.cube.is_cut() ? placement.num_cubes : 1) *
         (placement.pe.is_cut() ? placement.num_pes : 1);
}

FlatRows rows_of(const Tensor& whole, int ranks) {
  const std::int64_t rows = whole.shape()[0];
  return {.rows = rows,
          .padded_rows = sim::ceil_divide(rows, ranks),
          .row_elements = rows == 0 ? 0 : whole.numel() / rows,
          .lanes = count_lanes(whole)};
}

// Returns this rank's rows, and zeros behind them up to `count`, outside of simulated time.
Tensor take_rows(const Tensor& whole, const FlatRows& rows, int rank, std::int64_t count,
                 bool has_data) {
  std::vector<std::int64_t> sizes(whole.shape().begin(), whole.shape().end());
  sizes[0] = count;
  Tensor taken =
      ops::make_like(whole, whole.name(), Shape(sizes), whole.dtype(), ops::placement_of(whole));
  if (!has_data) return taken;
  const std::vector<float> all = whole.to_vector();
  std::vector<float> own(static_cast<std::size_t>(taken.numel()));
  const std::int64_t elements = rows.count_rows(rank) * rows.row_elements;
  if (elements > 0) std::copy_n(all.begin() + rank * rows.padded_elements(), elements, own.begin());
  runtime::set_elements(*taken.storage(), own);
  return taken;
}

}  // namespace

ShardedParameter make_shard(RuntimeContext& torch, const std::string& name, Tensor whole,
                            const ProcessGroup& group, const MixedPrecisionPolicy& policy) {
  const int ranks = torch.distributed.get_world_size(group);
  const int rank = torch.distributed.get_rank(group);
  const FlatRows layout = rows_of(whole, ranks);
  const bool is_spread = layout.lanes > 1;
  const std::int64_t count = layout.count_rows(rank);
  // PEs share fewer rows in another way, so such a shard is no part of a padded one.
  const Tensor padded =
      take_rows(whole, layout, rank, is_spread ? count : layout.padded_rows, torch.options().data);
  const Tensor own = is_spread ? padded : runtime::make_stretch_view(padded, 0, 0, count);
  own.storage()->shard_of = std::make_shared<const ShardSpec>(
      ShardSpec{name, whole, rank * layout.padded_rows, is_spread ? Tensor() : padded, group});
  Tensor(own).requires_grad_(whole.requires_grad());
  runtime::mark_memory(own, MemoryKind::parameter);
  if (const DType dtype = policy.param_dtype.value_or(whole.dtype()); dtype != whole.dtype()) {
    const Tensor gathered =
        ops::make_like(whole, whole.name(), whole.shape(), dtype, ops::placement_of(whole));
    runtime::set_data(*whole.storage(), *gathered.storage());
  }
  runtime::begin_host_write(*whole.storage());
  runtime::free_space(*whole.storage()->memory);
  whole.zero_grad();
  return {name, whole, padded, own, layout, {}};
}

Tensor gather_rows(RuntimeContext& torch, const Tensor& shard, const ShardSpec& spec) {
  const int ranks = torch.distributed.get_world_size(spec.group);
  std::vector<FlatRows> layout{rows_of(spec.parameter, ranks)};
  const std::int64_t part = set_offsets(layout);
  const Tensor flat = make_flat(spec.parameter, "all_gather", ranks, part, shard.dtype());
  const Tensor own = part_of(flat, torch.distributed.get_rank(spec.group), part);
  copy_in_shards(own, {shard}, layout);
  torch.distributed.all_gather_into_tensor(flat, own, {.group = spec.group});
  const Tensor whole = ops::make_like(spec.parameter, spec.name, spec.parameter.shape(),
                                      shard.dtype(), ops::placement_of(spec.parameter));
  copy_out(flat, {whole}, layout, ranks);
  return whole;
}

}  // namespace kernbench::distributed::fsdp
