#include "tp/param_and_grad_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <ranges>
#include <utility>

#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"
#include "sim_engine/base/error.h"

namespace kernbench::tp {

namespace {

constexpr std::int64_t kAlignment = 64;      // of a parameter's first element
constexpr std::int64_t kEndAlignment = 128;  // of a bucket's end, for every number of ranks

using nn::parallel::FlatBuffer;

nn::parallel::FlatLayout layout_of(const ParamAndGradBucket::Setting& setting, int dp) {
  const bool is_shared = setting.config.use_distributed_optimizer;
  return {.alignment = kAlignment,
          .multiple = is_shared ? std::lcm(std::int64_t{dp}, kEndAlignment) : kAlignment};
}

FlatBuffer make_grads(const ParamAndGradBucket::Setting& setting, const std::vector<Tensor>& params,
                      int dp) {
  const DType dtype = setting.config.grad_reduce_in_fp32 ? DType::f32 : params.front().dtype();
  return {params, dtype, layout_of(setting, dp)};
}

void check_is_uncut(const Tensor& param) {
  const ops::Placement placement = ops::placement_of(param);
  if (!placement.cube.is_cut() && !placement.pe.is_cut()) return;
  ops::refuse_placement("use_distributed_optimizer", param,
                        "ranks share buckets whose tensors lie whole on each of their holders");
}

}  // namespace

ParamAndGradBucket::ParamAndGradBucket(const Setting& setting, std::vector<Tensor> params)
    : setting_(setting),
      params_(std::move(params)),
      grads_(make_grads(setting, params_, setting.torch.distributed.get_world_size(setting.group))),
      dp_(setting.torch.distributed.get_world_size(setting.group)) {
  shard_size_ = grad_data().numel();
  if (!setting.config.use_distributed_optimizer) return;
  std::ranges::for_each(params_, check_is_uncut);
  shard_ = setting.torch.distributed.get_rank(setting.group);
  shard_size_ /= dp_;
}

Tensor ParamAndGradBucket::main_grad(std::size_t param) const {
  std::vector<Tensor> all(params_.size());
  all[param] = setting_.torch.empty_like(params_[param].detach()).to(grad_data().dtype());
  grads_.unpack(all);
  return all[param];
}

Tensor ParamAndGradBucket::grad_shard() const {
  return grad_data().narrow(0, shard_begin(), shard_size_);
}

void ParamAndGradBucket::add_grad(std::size_t param) {
  Tensor of = params_[param];
  ops::check_is_whole("main_grad", of.grad());
  grads_.add(param, of.grad());
  of.zero_grad();
}

void ParamAndGradBucket::register_grad_ready(std::size_t param) {
  ready_.push_back(param);
  const bool overlaps = setting_.config.overlap_grad_reduce && !is_first_batch();
  if (overlaps && ready_.size() == expected_.size()) start_grad_sync();
}

void ParamAndGradBucket::start_grad_sync() {
  if (is_reducing_) {
    throw CollectiveError("KB-T008",
                          "Should not have multiple communication calls outstanding at once: "
                          "finish_grad_sync() comes before the next backward pass");
  }
  const DistributedDataParallelConfig& config = setting_.config;
  const ReduceOp op = config.average_in_collective ? ReduceOp::avg : ReduceOp::sum;
  if (!config.average_in_collective) grad_data().mul_(1.0 / dp_);
  sent_ = nn::parallel::device_instant(setting_.torch, grad_data().device());
  auto& distributed = setting_.torch.distributed;
  const distributed::CollectiveOptions options{.group = setting_.group,
                                               .async_op = config.overlap_grad_reduce};
  if (config.use_distributed_optimizer) {
    work_ = distributed.reduce_scatter_tensor(grad_shard(), grad_data(), op, options);
  } else {
    work_ = distributed.all_reduce(grad_data(), op, options);
  }
  is_reducing_ = true;
}

void ParamAndGradBucket::finish_grad_sync() {
  if (!setting_.config.overlap_grad_reduce || is_first_batch()) {
    start_grad_sync();
  } else if (!is_reducing_) {
    throw CollectiveError(
        "KB-T008", fmt::format("Communication call has not been issued for this bucket ({}/{} "
                               "params have grad available)",
                               ready_.size(), expected_.size()));
  }
  if (work_) work_.wait();
  if (is_first_batch()) expected_ = ready_;
  ready_.clear();
  is_reducing_ = false;
}

nn::parallel::BucketTimes ParamAndGradBucket::reduction() const {
  const distributed::Work::Times times = work_.times();
  return {0,
          {},
          nn::parallel::bytes_of(grad_data()),
          sent_->at,
          times.started,
          times.ended,
          times.hidden,
          times.ended - times.started - times.hidden};
}

void ParamAndGradBucket::zero_grad_data() {
  grad_data().zero_();
}

FlatBuffer ParamAndGradBucket::packed_params() const {
  FlatBuffer flat(params_, params_.front().dtype(), layout_of(setting_, dp_));
  flat.pack(params_);
  return flat;
}

void ParamAndGradBucket::gather_params(const Tensor& master) const {
  const FlatBuffer flat(params_, params_.front().dtype(), layout_of(setting_, dp_));
  Tensor own = flat.tensor().narrow(0, shard_begin(), shard_size_);
  own.copy_(master.detach().to(own.dtype()));
  if (is_shared()) {
    setting_.torch.distributed.all_gather_into_tensor(flat.tensor(), own,
                                                      {.group = setting_.group});
  }
  flat.unpack(params_);
}

std::vector<std::vector<Tensor>> bucketed_params(const std::vector<Tensor>& params,
                                                 const DistributedDataParallelConfig& config,
                                                 int dp) {
  const std::int64_t size =
      !config.overlap_grad_reduce
          ? std::numeric_limits<std::int64_t>::max()
          : config.bucket_size.value_or(std::max<std::int64_t>(40'000'000, 1'000'000L * dp));
  std::vector<Tensor> reversed(params.rbegin(), params.rend());
  std::vector<nn::parallel::BucketItem> items = nn::parallel::bucket_items(reversed);
  for (std::size_t i = 0; i < items.size(); ++i) items[i].bytes = reversed[i].numel();
  std::vector<std::vector<Tensor>> buckets;
  std::vector<std::size_t> order(reversed.size());
  std::iota(order.begin(), order.end(), 0);
  for (const auto& bucket : nn::parallel::bucket_assignment(items, std::array{size}, order)) {
    std::vector<Tensor>& made = buckets.emplace_back();
    for (const std::size_t number : bucket) made.push_back(reversed[number]);
  }
  return buckets;
}

}  // namespace kernbench::tp
