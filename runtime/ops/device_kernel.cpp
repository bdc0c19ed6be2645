#include "runtime/ops/device_kernel.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/launch/kernel_launch.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::ops {

namespace {

TensorOptions make_options(const Tensor& like, std::string_view name, const Shape& shape,
                           DType dtype, const Placement& placement) {
  const auto dp = to_policy(placement, shape.rank());
  if (!dp) {
    refuse_placement(name, like,
                     "the result would be cut along a dimension that is neither the first nor the "
                     "last");
  }
  return {.dtype = dtype, .dp = *dp, .name = std::string(name)};
}

}  // namespace

Tensor make_like(const Tensor& like, std::string_view name, const Shape& shape, DType dtype,
                 const Placement& placement) {
  return Tensor(runtime::make_device_storage(like.storage()->simulation, like.device(), shape,
                                             make_options(like, name, shape, dtype, placement)));
}

Tensor make_unplaced_like(const Tensor& like, std::string_view name, const Shape& shape,
                          DType dtype, const Placement& placement) {
  return Tensor(runtime::make_unplaced_storage(like.storage()->simulation, like.device(), shape,
                                               make_options(like, name, shape, dtype, placement)));
}

namespace {

void launch_as(runtime::Body lifetime, std::string_view name, const std::vector<Tensor>& results,
               const std::vector<Tensor>& operands, std::function<void(tl::Context&)> body) {
  std::vector<Tensor> uses = results;
  uses.insert(uses.end(), operands.begin(), operands.end());
  runtime::launch(runtime::LaunchName::of_operator(name), results.front(), std::move(uses),
                  std::move(body), {lifetime, &results, true});
}

runtime::Body lifetime_of(const KernelBody& body) {
  return body.owns() ? runtime::Body::owns : runtime::Body::borrows;
}

void check_parts(std::string_view name, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    check_lies_together(name, tensor);
    runtime::check_is_contiguous(tensor, name);
  }
}

}  // namespace

void launch_on_views(std::string_view name, const std::vector<Tensor>& results,
                     const std::vector<Tensor>& operands, KernelBody body) {
  const runtime::Body lifetime = lifetime_of(body);
  launch_as(lifetime, name, results, operands, [body = std::move(body)](tl::Context& tl) {
    tl.limit_commands_under_way(kCommandsAhead);
    body(tl);
  });
}

void launch(std::string_view name, const std::vector<Tensor>& results,
            const std::vector<Tensor>& operands, KernelBody body) {
  check_parts(name, results);
  check_parts(name, operands);
  launch_on_views(name, results, operands, std::move(body));
}

void launch_on_rows(std::string_view name, const std::vector<Tensor>& results,
                    const std::vector<Tensor>& operands, std::int64_t columns, KernelBody body) {
  const auto explained = [body, columns, name = std::string(name)](tl::Context& tl) {
    tl.limit_commands_under_way(kCommandsAhead);
    try {
      body(tl);
    } catch (const DeviceError& error) {
      if (error.code() != "KB-M010") throw;
      throw DeviceError("KB-M010",
                        "{}: a row of {} elements is needed whole in scratch, in f32 and several "
                        "times; share columns among ranks (of logits: a vocabulary parallel loss), "
                        "make rows shorter, or use a topology with a larger pe.tcm.capacity\n  {}",
                        name, columns, error.what());
    }
  };
  check_parts(name, results);
  check_parts(name, operands);
  launch_as(lifetime_of(body), name, results, operands, explained);
}

const ShardInfo& shard_at(const Tensor& tensor, const sim::PeLocation& pe) {
  const auto& shards = tensor.shards();
  const auto shard = std::ranges::find_if(shards, [&](const ShardInfo& info) {
    return info.sip == pe.sip && info.cube == pe.cube && info.pe == pe.pe;
  });
  KB_CHECK(shard != shards.end(), "tensor '{}' has no part on {}", tensor.name(), to_string(pe));
  return *shard;
}

LocalPart local_part(const Tensor& tensor, const tl::Context& tl) {
  const sim::PeLocation& pe = tl.location();
  const ShardInfo& shard = shard_at(tensor, pe);
  const Shape& shape = shard.shape;
  const std::int64_t columns = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.rank(); ++i) rows *= shape[i];
  return {runtime::shard_pointer(tensor, pe), shape, shard.offset, rows, columns};
}

std::int64_t block_elements(const tl::Context& tl) {
  // Scratch has room for this many blocks in f32: kernels hold several values, and the next blocks'
  // loads run ahead.
  constexpr std::int64_t kBlocks = 64;
  const Bytes scratch = tl.run().pe().scratch_for_tiles(true);
  return std::max<std::int64_t>(scratch / kBlocks / size_of(DType::f32), 1);
}

}  // namespace kernbench::ops
