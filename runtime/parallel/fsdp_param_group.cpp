#include "runtime/parallel/fsdp_param_group.h"

#include <algorithm>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/flat_buffer.h"
#include "runtime/parallel/fsdp_streams.h"
#include "runtime/simulation/named_part.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::distributed::fsdp {

CommContext::CommContext(RuntimeContext& torch)
    : copy_in(torch.ahbm.Stream()),
      reduce_scatter(torch.ahbm.Stream()),
      all_reduce(torch.ahbm.Stream()) {}

void CommContext::free_last_gathered() {
  if (!last_gathered) return;
  // The buffer of the gathering before may be freed only when its copy-out has ended, and the next
  // one takes its place in HBM.
  gather_after(last_gathered->event);
  free_elements(last_gathered->flat);
  last_gathered.reset();
}

void ParamGroup::Layout::set_group(RuntimeContext& torch, const ProcessGroup& of) {
  group = of;
  ranks = torch.distributed.get_world_size(of);
  rank = torch.distributed.get_rank(of);
}

ParamGroup::ParamGroup(const Setting& setting, std::vector<ShardedParameter> parameters)
    : setting_(setting),
      parameters_(std::move(parameters)),
      ranks_(setting.torch.distributed.get_world_size(setting.shard_group)) {
  for (const ShardedParameter& parameter : parameters_) layout_.rows.push_back(parameter.rows);
  layout_.part = set_offsets(layout_.rows);
  layout_.set_group(setting.torch, setting.shard_group);
  set_names({});
}

void ParamGroup::set_context(std::shared_ptr<CommContext> context) {
  if (context == context_) return;
  leave_context();
  context_ = std::move(context);
}

// The entry is replaced and not erased, because other groups hold indices into forward_order.
void ParamGroup::leave_context() {
  if (context_ == nullptr) return;
  std::ranges::replace(context_->forward_order, this, nullptr);
  forward_indices_.clear();
  if (context_->last_reduced == this) context_->last_reduced = nullptr;
}

DType ParamGroup::gathered_dtype() const {
  return parameters_.front().whole.dtype();
}

DType ParamGroup::reduced_dtype() const {
  return setting_.policy.reduce_dtype.value_or(gathered_dtype());
}

Tensor ParamGroup::make_flat(std::string_view name, std::int64_t count, DType dtype,
                             bool cube_is_partial, bool pe_is_partial) const {
  ops::Placement placement = ops::placement_of(parameters_.front().whole);
  placement.cube = cube_is_partial ? ops::kPartial : ops::kReplicate;
  placement.pe = pe_is_partial ? ops::kPartial : ops::kReplicate;
  return ops::make_like(parameters_.front().whole, name, {count}, dtype, placement);
}

void ParamGroup::set_names(const OrderedDict<Tensor>& parameters) {
  std::vector<std::string> names;
  for (ShardedParameter& parameter : parameters_) {
    for (const auto& item : parameters) {
      if (item.value().storage() == parameter.shard.storage()) parameter.name = item.key();
    }
    names.push_back(parameter.name);
  }
  names_ = std::make_shared<const std::vector<std::string>>(std::move(names));
}

// The current stream has been given what makes the collective ready.
std::shared_ptr<Work::Times> ParamGroup::note(std::string_view collective,
                                              const Tensor& flat) const {
  context_->sent.push_back({name_, names_, std::string(collective), nn::parallel::bytes_of(flat),
                            nn::parallel::device_instant(setting_.torch, flat.device()),
                            std::make_shared<Work::Times>()});
  return context_->sent.back().times;
}

// Gathering

// Makes the ranks of a smaller group keep parts of the parameters after the forward pass.
void ParamGroup::keep_parts_in(const ProcessGroup& group) {
  keeps_part = true;
  kept_layout_ = layout_;
  kept_layout_->set_group(setting_.torch, group);
  for (FlatRows& rows : kept_layout_->rows) rows.padded_rows *= ranks_ / kept_layout_->ranks;
  kept_layout_->part = set_offsets(kept_layout_->rows);
}

void ParamGroup::keep_part() {
  kept_ = make_flat("kept part", kept_layout_->part, gathered_dtype(), false, false);
  std::vector<Tensor> wholes;
  for (const ShardedParameter& parameter : parameters_) wholes.push_back(parameter.whole);
  copy_in_rows(kept_, wholes, kept_layout_->rows, kept_layout_->rank);
  has_kept_ = current_stream(setting_.torch).record_event();
  free_elements_of_all();
}

void ParamGroup::copy_in(const Tensor& own) {
  if (kept_.defined()) {
    return copy_in_shards(own, {std::exchange(kept_, {})}, {{own.numel(), own.numel(), 1, 0}});
  }
  std::vector<Tensor> shards;
  for (const ShardedParameter& parameter : parameters_) shards.push_back(parameter.padded);
  copy_in_shards(own, shards, layout_.rows);
  gathered_ = simulation_of(setting_.torch).last_write();
}

void ParamGroup::unshard() {
  if (std::exchange(gathers_anew_, false)) {
    drop_gathering();
    free_parts();
  }
  if (gathering_ || is_unsharded_) return;
  const runtime::NamedPart part(simulation_of(setting_.torch), name_);
  if (kept_.defined()) context_->gather_after(*has_kept_);
  const ahbm::StreamContext on_stream(context_->copy_in);
  const Layout& layout = kept_.defined() ? *kept_layout_ : layout_;
  const Tensor flat =
      make_flat("all_gather", layout.ranks * layout.part, gathered_dtype(), false, false);
  // The shard is copied straight to its place in the result, so the collective is in place and
  // needs no second buffer.
  const Tensor own = runtime::make_stretch_view(flat, 0, layout.rank * layout.part, layout.part);
  copy_in(own);
  gathering_ = {flat, {}, nullptr, &layout};
  // A single rank has everything, but its shards must still be copied into the form that the
  // forward pass uses.
  if (layout.ranks == 1) return;
  gathering_->work = setting_.torch.distributed.all_gather_into_tensor(
      flat, own, {.group = layout.group, .async_op = true}, setting_.location);
  gathering_->times = note("all_gather", flat);
}

// All parameters get a place, or none.
void ParamGroup::take_space() const {
  std::size_t taken = 0;
  try {
    for (; taken < parameters_.size(); ++taken) {
      runtime::take_space(*parameters_[taken].whole.storage()->memory);
    }
  } catch (...) {
    while (taken > 0) free_elements(parameters_[--taken].whole);
    throw;
  }
}

// As in torch: an all_gather of the forward pass does not wait until the one before it has been
// copied out, only until the one before that has; one of the backward pass waits for both.
void ParamGroup::wait_for_unshard() {
  if (!gathering_) return;
  const runtime::NamedPart part(simulation_of(setting_.torch), name_);
  if (pass_ == Pass::forward) context_->free_last_gathered();
  const auto [flat, work, times, layout] = *std::exchange(gathering_, std::nullopt);
  if (work) wait_for(setting_.torch, work, times);
  const ahbm::Stream stream = current_stream(setting_.torch);
  // Without a collective nothing else joins the two streams.
  if (!work) stream.wait_stream(context_->copy_in);
  take_space();
  std::vector<Tensor> wholes;
  std::vector<std::unique_ptr<runtime::PreservedVersion>> versions;
  for (const ShardedParameter& parameter : parameters_) {
    versions.push_back(
        // Gathered elements are the old ones, so autograd must not take the copy for a change of
        // the parameter.
        std::make_unique<runtime::PreservedVersion>(*parameter.whole.storage()->memory));
    wholes.push_back(parameter.whole);
  }
  copy_out(flat, wholes, layout->rows, layout->ranks);
  is_unsharded_ = true;
  context_->last_gathered = {flat, stream.record_event()};
  if (pass_ != Pass::forward) context_->free_last_gathered();
}

void ParamGroup::reshard() {
  if (pass_ != Pass::forward) return free_parts();
  if (!reshard_after_forward || !is_unsharded_) return;
  keeps_part ? keep_part() : free_parts();
}

void ParamGroup::free_parts() {
  kept_ = {};
  free_elements_of_all();
}

void ParamGroup::free_elements_of_all() {
  if (!std::exchange(is_unsharded_, false)) return;
  for (const ShardedParameter& parameter : parameters_) free_elements(parameter.whole);
}

void ParamGroup::drop_gathering() {
  const auto unused = std::exchange(gathering_, std::nullopt);
  if (!unused) return;
  if (unused->work) {
    wait_for(setting_.torch, unused->work, unused->times);
  } else {
    current_stream(setting_.torch).wait_stream(context_->copy_in);
  }
  free_elements(unused->flat);
}

// Passes

// True if shards were written after they had been gathered, such as by load_state_dict().
bool ParamGroup::is_stale() const {
  const bool has_parts = is_unsharded_ || kept_.defined();
  return has_parts && std::ranges::any_of(parameters_, [&](const ShardedParameter& parameter) {
           return runtime::is_written_after(*parameter.shard.storage(), gathered_);
         });
}

void ParamGroup::pre_forward() {
  if (is_stale()) reshard();
  pass_ = Pass::forward;
  unshard();
  wait_for_unshard();
}

void ParamGroup::post_forward() {
  reshard();
  pass_ = Pass::idle;
  // There is no backward pass that could prefetch by this order.
  if (!is_grad_enabled(simulation_of(setting_.torch))) return;
  forward_indices_.push_back(context_->forward_order.size());
  context_->forward_order.push_back(this);
}

void ParamGroup::forward_has_thrown() noexcept {
  pass_ = Pass::idle;
  // An exception may have come at any point, so the next use begins from the shards.
  gathers_anew_ = true;
}

void ParamGroup::forget_forwards_from(std::size_t begin) noexcept {
  std::erase_if(forward_indices_, [&](std::size_t index) { return index >= begin; });
}

void ParamGroup::pre_backward(bool prefetches) {
  if (pass_ == Pass::pre_backward) return;
  pass_ = Pass::pre_backward;
  unshard();
  wait_for_unshard();
  if (!prefetches || forward_indices_.empty()) return;
  const std::size_t index = forward_indices_.back();
  forward_indices_.pop_back();
  if (index == 0) return;
  // The backward pass runs through modules in the reverse order of the forward pass, so the module
  // before this one comes next.
  if (ParamGroup* const before = context_->forward_order[index - 1]) before->unshard();
}

void ParamGroup::post_backward() {
  pass_ = Pass::post_backward;
  accumulate_gradients();
  if (reshard_after_backward) reshard();
  if (reduce_grads) reduce();
}

void ParamGroup::finalize_backward() {
  settle();
  wait_for_post_backward();
  drop_gathering();
  forward_indices_.clear();
  pass_ = Pass::idle;
}

void ParamGroup::wait_for_post_backward() {
  if (has_reduced_) has_reduced_->wait();
  has_reduced_.reset();
}

}  // namespace kernbench::distributed::fsdp
