#include "runtime/parallel/fsdp_param_group.h"

#include <algorithm>
#include <utility>

#include "runtime/autograd/autograd.h"
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
  // The buffers of the gathering before may be freed only when their copy-out has ended, and the
  // next ones take their place in HBM.
  gather_after(last_gathered->event);
  for (const Tensor& flat : last_gathered->flats) free_elements(flat);
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
  find_kinds();
  for (const Kind& kind : kinds_) {
    std::vector<FlatRows> rows;
    for (const std::size_t i : kind.parameters) rows.push_back(parameters_[i].rows);
    layout_.kinds.emplace_back(std::move(rows));
  }
  partly_reduced_.resize(kinds_.size());
  layout_.set_group(setting.torch, setting.shard_group);
  set_names({});
}

void ParamGroup::find_kinds() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ops::Placement own = ops::placement_of(parameters_[i].whole);
    auto kind = std::ranges::find_if(kinds_, [&](const Kind& known) {
      return ops::placement_of(parameters_[known.parameters.front()].whole) == own;
    });
    if (kind == kinds_.end()) kind = kinds_.insert(kind, Kind{});
    kind->parameters.push_back(i);
  }
}

const Tensor& ParamGroup::first_of(std::size_t kind) const {
  return parameters_[kinds_[kind].parameters.front()].whole;
}

std::vector<Tensor> ParamGroup::wholes_of(std::size_t kind) const {
  std::vector<Tensor> wholes;
  for (const std::size_t i : kinds_[kind].parameters) wholes.push_back(parameters_[i].whole);
  return wholes;
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

void ParamGroup::set_names(const OrderedDict<Tensor>& parameters) {
  for (ShardedParameter& parameter : parameters_) {
    for (const auto& item : parameters) {
      if (item.value().storage() == parameter.shard.storage()) parameter.name = item.key();
    }
  }
  for (Kind& kind : kinds_) {
    std::vector<std::string> names;
    for (const std::size_t i : kind.parameters) names.push_back(parameters_[i].name);
    kind.names = std::make_shared<const std::vector<std::string>>(std::move(names));
  }
}

// The current stream has been given what makes the collective ready.
std::shared_ptr<Work::Times> ParamGroup::note(std::string_view collective, const Sent& sent) const {
  const Tensor& flat = sent.flat;
  context_->sent.push_back({name_, kinds_[sent.kind].names, std::string(collective),
                            nn::parallel::bytes_of(flat),
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
  for (FlatLayout& kind : kept_layout_->kinds) {
    for (FlatRows& rows : kind.rows) rows.padded_rows *= ranks_ / kept_layout_->ranks;
    kind.part = set_offsets(kind.rows);
  }
}

void ParamGroup::keep_part() {
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    const FlatLayout& layout = kept_layout_->kinds[kind];
    kept_.push_back(make_flat(first_of(kind), "kept part", 1, layout.part, gathered_dtype()));
    copy_in_rows(kept_.back(), wholes_of(kind), layout.rows, kept_layout_->rank);
  }
  has_kept_ = current_stream(setting_.torch).record_event();
  free_elements_of_all();
}

void ParamGroup::copy_in(const Tensor& own, std::size_t kind) {
  const std::vector<FlatRows>& rows = layout_.kinds[kind].rows;
  if (!kept_.empty()) {
    const FlatRows all{own.numel(), own.numel(), 1, 0, rows.front().lanes};
    return copy_in_shards(own, {std::exchange(kept_[kind], {})}, {all});
  }
  std::vector<Tensor> shards;
  for (const std::size_t i : kinds_[kind].parameters) shards.push_back(parameters_[i].padded);
  copy_in_shards(own, shards, rows);
  gathered_ = simulation_of(setting_.torch).last_write();
}

void ParamGroup::unshard() {
  if (std::exchange(gathers_anew_, false)) {
    drop_gathering();
    free_parts();
  }
  if (gathering_ || is_unsharded_) return;
  const runtime::NamedPart part(simulation_of(setting_.torch), name_);
  if (!kept_.empty()) context_->gather_after(*has_kept_);
  const ahbm::StreamContext on_stream(context_->copy_in);
  Gathering gathering{kept_.empty() ? &layout_ : &*kept_layout_, {}};
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) gather(kind, gathering);
  gathering_ = std::move(gathering);
  kept_.clear();
}

void ParamGroup::gather(std::size_t kind, Gathering& gathering) {
  const Layout& layout = *gathering.layout;
  const std::int64_t part = layout.kinds[kind].part;
  const Tensor flat = make_flat(first_of(kind), "all_gather", layout.ranks, part, gathered_dtype());
  // The shard is copied straight to its place in the result, so the collective is in place and
  // needs no second buffer.
  const Tensor own = part_of(flat, layout.rank, part);
  copy_in(own, kind);
  gathering.all.push_back({kind, flat, {}, nullptr});
  // A single rank has everything, but its shards must still be copied into the form that the
  // forward pass uses.
  if (layout.ranks == 1) return;
  Sent& sent = gathering.all.back();
  sent.work = setting_.torch.distributed.all_gather_into_tensor(
      flat, own, {.group = layout.group, .async_op = true}, setting_.location);
  sent.times = note("all_gather", sent);
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
  const Gathering gathering = *std::exchange(gathering_, std::nullopt);
  wait_for_gathered(gathering.all);
  take_space();
  std::vector<std::unique_ptr<runtime::PreservedVersion>> versions;
  for (const ShardedParameter& parameter : parameters_) {
    versions.push_back(
        // Gathered elements are the old ones, so autograd must not take the copy for a change of
        // the parameter.
        std::make_unique<runtime::PreservedVersion>(*parameter.whole.storage()->memory));
  }
  std::vector<Tensor> flats;
  for (const Sent& sent : gathering.all) {
    const Layout& layout = *gathering.layout;
    copy_out(sent.flat, wholes_of(sent.kind), layout.kinds[sent.kind].rows, layout.ranks);
    flats.push_back(sent.flat);
  }
  is_unsharded_ = true;
  context_->last_gathered = {std::move(flats), current_stream(setting_.torch).record_event()};
  if (pass_ != Pass::forward) context_->free_last_gathered();
}

void ParamGroup::wait_for_gathered(const std::vector<Sent>& all) {
  for (const Sent& sent : all) {
    if (sent.work) {
      wait_for(setting_.torch, sent.work, sent.times);
    } else {  // without a collective nothing else joins the two streams
      current_stream(setting_.torch).wait_stream(context_->copy_in);
    }
  }
}

void ParamGroup::reshard() {
  if (pass_ != Pass::forward) return free_parts();
  if (!reshard_after_forward || !is_unsharded_) return;
  keeps_part ? keep_part() : free_parts();
}

void ParamGroup::free_parts() {
  kept_.clear();
  free_elements_of_all();
}

void ParamGroup::free_elements_of_all() {
  if (!std::exchange(is_unsharded_, false)) return;
  for (const ShardedParameter& parameter : parameters_) free_elements(parameter.whole);
}

void ParamGroup::drop_gathering() {
  const auto unused = std::exchange(gathering_, std::nullopt);
  if (!unused) return;
  wait_for_gathered(unused->all);
  for (const Sent& sent : unused->all) free_elements(sent.flat);
}

// Passes

// True if shards were written after they had been gathered, such as by load_state_dict().
bool ParamGroup::is_stale() const {
  const bool has_parts = is_unsharded_ || !kept_.empty();
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
  const bool reduces = reduce_grads && !defers_reduction;
  accumulate_gradients(reduces);
  if (reshard_after_backward && !defers_reduction) reshard();
  if (reduces) reduce();
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
