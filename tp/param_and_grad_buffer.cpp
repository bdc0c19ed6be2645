#include "tp/param_and_grad_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"
#include "runtime/simulation/named_part.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/torch/internals.h"
#include "sim_engine/base/error.h"

namespace kernbench::tp {

namespace {

constexpr std::int64_t kAlignment = 64;      // of a parameter's first element
constexpr std::int64_t kEndAlignment = 128;  // of a bucket's end, for every number of ranks

using nn::parallel::FlatBuffer;

nn::parallel::FlatLayout make_layout(const ParamAndGradBucket::Setting& setting, int dp) {
  if (!setting.config.use_distributed_optimizer) {
    return {.alignment = kAlignment, .multiple = kAlignment};
  }
  return {
      .alignment = kAlignment, .multiple = std::lcm(std::int64_t{dp}, kEndAlignment), .parts = dp};
}

DType type_of_grads(const DistributedDataParallelConfig& config,
                    const std::vector<Parameter>& params) {
  return config.grad_reduce_in_fp32 ? DType::f32 : params.front().dtype();
}

bool is_cut(const Parameter& parameter) {
  const ops::Placement placement = ops::placement_of(parameter);
  return placement.cube.is_cut() || placement.pe.is_cut();
}

}  // namespace

ParamAndGradBucket::ParamAndGradBucket(const Setting& setting, std::vector<Parameter> params)
    : setting_(setting),
      params_(std::move(params)),
      dp_(setting.torch.distributed.get_world_size(setting.group)),
      grads_(tensors(), type_of_grads(setting.config, params_), make_layout(setting, dp_)),
      is_zero_(params_.size(), true) {
  mark_as_gradients();
  if (is_shared()) shard_ = setting.torch.distributed.get_rank(setting.group);
}

void ParamAndGradBucket::mark_as_gradients() const {
  runtime::mark_memory(grads_.tensor(), MemoryKind::gradient);
  if (reduced_.defined()) runtime::mark_memory(reduced_, MemoryKind::gradient);
}

// The buffer, with zeros where main_grad is zero.
const FlatBuffer& ParamAndGradBucket::grads() const {
  std::vector<std::size_t> zeros;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (is_zero_[i]) zeros.push_back(i);
  }
  if (!zeros.empty()) grads_.clear(zeros);
  is_zero_.assign(params_.size(), false);
  return grads_;
}

Tensor ParamAndGradBucket::main_grad(std::size_t param) const {
  ops::check_is_whole("main_grad", grad_data());
  const runtime::MadeAs copies(simulation_of(setting_.torch), MemoryKind::temporary);
  std::vector<Tensor> all(params_.size());
  all[param] = setting_.torch.empty_like(params_[param].detach()).to(grad_data().dtype());
  grads().unpack(all);
  return all[param];
}

Tensor ParamAndGradBucket::main_grad_view(std::size_t param) const {
  return grads().view(param, params_[param].shape());
}

Tensor ParamAndGradBucket::grad_shard() const {
  if (!reduced_.defined()) return grads().part(shard_);
  if (is_reduced_stale_) {
    Tensor(reduced_).zero_();
    is_reduced_stale_ = false;
  }
  return reduced_;
}

// The holders of a parameter add up its gradient when ranks do.
void ParamAndGradBucket::hold_summands() {
  nn::parallel::FlatLayout layout = make_layout(setting_, dp_);
  layout.holds_summands = true;
  FlatBuffer summands(tensors(), grads_.tensor().dtype(), layout);
  Tensor reduced = grads_.part(shard_).clone();
  const bool is_empty = std::ranges::all_of(is_zero_, std::identity());
  if (!is_empty) {
    std::vector<Tensor> held;
    for (std::size_t i = 0; i < params_.size(); ++i) held.push_back(main_grad(i));
    summands.pack(held);
  }
  grads_ = std::move(summands);
  reduced_ = std::move(reduced);
  mark_as_gradients();
  is_reduced_stale_ = true;
}

Tensor ParamAndGradBucket::part_of_shard(const Tensor& shard, std::size_t param) const {
  const std::int64_t offset = grads_.offset(param) - shard_begin();
  const std::int64_t begin = std::max<std::int64_t>(offset, 0);
  const std::int64_t end = std::min(offset + params_[param].numel(), shard_size());
  return begin < end ? shard.narrow(0, begin, end - begin) : Tensor();
}

bool ParamAndGradBucket::has_parts_on_holders() const {
  return is_cut(params_.front());
}

std::vector<Tensor> ParamAndGradBucket::grads_for_norm(const Tensor& shard) const {
  const auto counts = [&](const Parameter& param) {
    return counts_in_norms(setting_.torch, param);
  };
  if (std::ranges::all_of(params_, counts)) return {shard};
  if (std::ranges::none_of(params_, counts)) return {};
  std::vector<Tensor> counted;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (!counts(params_[i])) continue;
    if (has_parts_on_holders()) {
      if (is_shared()) {
        ops::refuse_placement("use_distributed_optimizer", params_[i],
                              "a norm that leaves out copies of tensor parallel ranks wants "
                              "buckets whose tensors lie whole on each of their holders");
      }
      counted.push_back(main_grad(i));
      continue;
    }
    const Tensor part = part_of_shard(shard, i);
    if (part.defined()) counted.push_back(part);
  }
  return counted;
}

void ParamAndGradBucket::add_grad(std::size_t param) {
  Tensor of = params_[param];
  const bool has_summands = ops::placement_of(of.grad()).is_partial();
  if (has_summands && is_shared() && !reduced_.defined()) hold_summands();
  if (!reduced_.defined()) ops::check_is_whole("main_grad", of.grad());
  if (is_zero_[param]) {
    grads_.set(param, of.grad());
    is_zero_[param] = false;
  } else {
    grads_.add(param, of.grad());
  }
  of.zero_grad();
  has_new_grads_ = true;
}

void ParamAndGradBucket::check_is_reduced() const {
  if (!has_new_grads_) return;
  throw CollectiveError("KB-T008",
                        "MegatronOptimizer::step: the gradients of this bucket have not been "
                        "reduced: call finalize_model_grads() after the last backward(), then "
                        "step() (rank {}: '{}')",
                        setting_.torch.distributed.get_rank(), params_.front().name());
}

void ParamAndGradBucket::register_grad_ready(std::size_t param) {
  ready_.push_back(param);
  const bool overlaps = setting_.config.overlap_grad_reduce && !is_first_batch();
  if (overlaps && std::ranges::is_permutation(ready_, expected_)) start_grad_sync();
}

// The parameters whose gradients the first batch had and this one has not, or else those whose
// gradients only this one has.
std::string ParamAndGradBucket::describe_difference() const {
  const auto names_beyond = [&](const std::vector<std::size_t>& these,
                                const std::vector<std::size_t>& others) {
    std::string names;
    for (const std::size_t i : these) {
      if (std::ranges::find(others, i) != others.end()) continue;
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", params_[i].name());
    }
    return names;
  };
  const std::string missing = names_beyond(expected_, ready_);
  return missing.empty() ? names_beyond(ready_, expected_) : missing;
}

void ParamAndGradBucket::start_grad_sync() {
  if (is_reducing_) {
    throw CollectiveError("KB-T008",
                          "Should not have multiple communication calls outstanding at once: "
                          "finish_grad_sync() comes before the next backward pass (rank {}: '{}')",
                          setting_.torch.distributed.get_rank(), params_.front().name());
  }
  const runtime::NamedPart part(simulation_of(setting_.torch), "bucket", setting_.index);
  const DistributedDataParallelConfig& config = setting_.config;
  const ReduceOp op = config.average_in_collective ? ReduceOp::avg : ReduceOp::sum;
  if (!config.average_in_collective) grad_data().mul_(1.0 / dp_);
  sent_ = nn::parallel::device_instant(setting_.torch, grad_data().device());
  auto& distributed = setting_.torch.distributed;
  const distributed::CollectiveOptions options{.group = setting_.group,
                                               .async_op = config.overlap_grad_reduce};
  if (config.use_distributed_optimizer) {
    const Tensor& all = grad_data();
    work_ = distributed.reduce_scatter_tensor(reduced_.defined() ? reduced_ : grads_.part(shard_),
                                              all, op, options);
  } else {
    work_ = distributed.all_reduce(grad_data(), op, options);
  }
  is_reducing_ = true;
  is_reduced_stale_ = false;
}

void ParamAndGradBucket::finish_grad_sync() {
  if (!setting_.config.overlap_grad_reduce || is_first_batch()) {
    start_grad_sync();
  } else if (!is_reducing_) {
    throw CollectiveError("KB-T008",
                          "Communication call has not been issued for this bucket ({}/{} params "
                          "have grad available) (rank {}: {})",
                          ready_.size(), expected_.size(), setting_.torch.distributed.get_rank(),
                          describe_difference());
  }
  if (work_) work_.wait();
  if (is_first_batch()) expected_ = ready_;
  ready_.clear();
  is_reducing_ = has_new_grads_ = false;
}

nn::parallel::BucketTimes ParamAndGradBucket::reduction() const {
  const distributed::Work::Times times = work_.times();
  return {0,
          {},
          nn::parallel::bytes_of(grads_.tensor()),
          sent_->at,
          times.started,
          times.ended,
          times.hidden,
          times.ended - times.started - times.hidden,
          {},
          fmt::format("bucket {}", setting_.index)};
}

void ParamAndGradBucket::zero_grad_data() {
  ready_.clear();
  has_new_grads_ = false;
  if (std::exchange(is_reducing_, false) && work_) work_.wait();
  is_zero_.assign(params_.size(), true);
  is_reduced_stale_ = true;
}

FlatBuffer ParamAndGradBucket::make_flat() const {
  return {tensors(), params_.front().dtype(), make_layout(setting_, dp_)};
}

FlatBuffer ParamAndGradBucket::packed_params() const {
  FlatBuffer flat = make_flat();
  flat.pack(tensors());
  return flat;
}

void ParamAndGradBucket::update_params(const Tensor& master) {
  master_ = master.detach();
  if (!setting_.config.overlap_param_gather) finish_param_sync();
}

void ParamAndGradBucket::start_param_sync() {
  if (!master_.defined()) return;
  const runtime::NamedPart part(simulation_of(setting_.torch), "parameters of bucket",
                                setting_.index);
  gathered_ = make_flat();
  Tensor own = gathered_->part(shard_);
  own.copy_(std::exchange(master_, {}).to(own.dtype()));
  if (!is_shared()) return;
  gathering_ = setting_.torch.distributed.all_gather_into_tensor(
      gathered_->tensor(), own,
      {.group = setting_.group, .async_op = setting_.config.overlap_param_gather});
}

void ParamAndGradBucket::finish_param_sync() {
  start_param_sync();
  if (!gathered_) return;
  if (gathering_) std::exchange(gathering_, {}).wait();
  gathered_->unpack(tensors());
  gathered_.reset();
}

std::vector<std::vector<Parameter>> bucketed_params(const std::vector<Parameter>& params,
                                                    const DistributedDataParallelConfig& config,
                                                    int dp) {
  const std::int64_t size =
      !config.overlap_grad_reduce
          ? std::numeric_limits<std::int64_t>::max()
          : config.bucket_size.value_or(std::max<std::int64_t>(40'000'000, 1'000'000L * dp));
  const std::vector<Parameter> reversed(params.rbegin(), params.rend());
  const auto items = nn::parallel::bucket_items({reversed.begin(), reversed.end()});
  struct Bucket {
    std::vector<Parameter> params;
    std::int64_t length = 0;  // with the gaps before parameters
  };
  std::map<std::pair<int, bool>, Bucket> open;  // by kind, and whether tp ranks have copies
  std::vector<std::vector<Parameter>> buckets;
  for (std::size_t i = 0; i < reversed.size(); ++i) {
    // A norm counts a bucket whose holders have parts of it as a whole, or not at all.
    const bool is_parallel =
        reversed[i].attributes && reversed[i].attributes->tensor_model_parallel;
    Bucket& bucket = open[{items[i].kind, is_cut(reversed[i]) && !is_parallel}];
    const std::int64_t begin = (bucket.length + kAlignment - 1) / kAlignment * kAlignment;
    bucket.length = begin + reversed[i].numel();
    bucket.params.push_back(reversed[i]);
    if (bucket.length >= size) buckets.push_back(std::exchange(bucket, {}).params);
  }
  for (auto& [kind, bucket] : open) {
    if (!bucket.params.empty()) buckets.push_back(std::move(bucket.params));
  }
  return buckets;
}

}  // namespace kernbench::tp
