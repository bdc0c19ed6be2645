#include "runtime/parallel/fsdp_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/callbacks.h"
#include "runtime/ops/fusion.h"
#include "runtime/parallel/step_times.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed::fsdp {

namespace {

// Only tensors of floating point are cast, as in torch: ids are not.
Tensor cast_floating(const Tensor& x, const std::optional<DType>& dtype) {
  return dtype && !is_integral(x.dtype()) ? x.to(*dtype) : x;
}

// Calls visit(name, module) for a module and all inner ones.
void walk(nn::Module& module, const std::string& name,
          const std::function<void(const std::string& name, nn::Module&)>& visit) {
  visit(name, module);
  for (const auto& child : module.named_children()) {
    walk(*child.value(), name.empty() ? child.key() : name + "." + child.key(), visit);
  }
}

}  // namespace

State::State(RuntimeContext& torch, std::vector<nn::Module*> modules,
             const FullyShardOptions& options, std::unique_ptr<ParamGroup> group)
    : has_own_reshard_setting(options.reshard_after_forward.has_value()),
      torch_(torch),
      is_of_several_(modules.size() > 1),
      modules_(std::move(modules)),
      policy_(options.mp_policy),
      group_(std::move(group)),
      shared_(std::make_shared<Shared>()) {}

std::shared_ptr<State> State::of(const nn::Module& module) {
  return std::dynamic_pointer_cast<State>(module.extension());
}

void State::module_ends(nn::Module& module) noexcept {
  std::erase(modules_, &module);
  std::erase(unended_, &module);
}

void State::for_each(const RecurseOptions& options, const std::function<void(State&)>& function) {
  if (!options.recurse) return function(*this);
  for (nn::Module* const each : modules_) {
    walk(*each, "", [&](const std::string&, nn::Module& module) {
      if (const auto state = of(module)) function(*state);
    });
  }
}

void State::set_is_last_backward(bool is_last) {
  shared_->is_last_backward = is_last;
}

std::vector<std::shared_ptr<State>> State::outermost_of(nn::Module& module) {
  if (const auto state = of(module)) return {state};
  std::vector<std::shared_ptr<State>> all;
  for (const auto& child : module.children()) {
    std::ranges::copy(outermost_of(*child), std::back_inserter(all));
  }
  return all;
}

void State::for_each_group(const std::function<void(ParamGroup&)>& function) {
  for_each({}, [&](State& state) {
    if (state.group() != nullptr) function(*state.group());
  });
}

void State::set_defers_reduction(bool defers) {
  for_each({}, [defers](State& state) { state.shared_->defers_reduction = defers; });
  for_each_group([defers](ParamGroup& group) { group.defers_reduction = defers; });
}

void State::add_deferred() {
  for_each_group([](ParamGroup& group) { group.accumulate_gradients(false); });
}

void State::reduce_deferred() {
  set_defers_reduction(false);
  for_each_group([](ParamGroup& group) { group.post_backward(); });
  end_backward();
}

void State::drop_deferred() {
  set_defers_reduction(false);
  for_each_group([](ParamGroup& group) { group.backward_has_thrown(); });
}

void State::unshard_all() {
  for_each({}, [](State& state) { state.unshard(); });
}

void State::reshard_all() {
  for_each_group([](ParamGroup& group) { group.reshard(); });
}

CommContext& State::comm() {
  if (shared_->comm == nullptr) shared_->comm = std::make_shared<CommContext>(torch_);
  return *shared_->comm;
}

void State::unshard() {
  if (group_ == nullptr) return;
  comm().copy_in.wait_stream(torch_.ahbm.current_stream());
  group_->set_context(shared_->comm);
  group_->unshard();
}

// The forward pass

// The first module that is called is the root of those inside of it.
void State::become_root() {
  if (is_of_several_) {
    throw CollectiveError("KB-A021", "FSDP requires a single root module but got {} (rank {})",
                          modules_.size(), torch_.distributed.get_rank());
  }
  shared_->states.clear();
  comm();
  std::map<const State*, std::string> first;  // of each state's modules
  walk(*modules_.front(), "", [&](const std::string& name, nn::Module& module) {
    const std::shared_ptr<State> state = of(module);
    if (state != nullptr && state->group() != nullptr) {
      const auto [known, is_new] = first.try_emplace(state.get(), name.empty() ? "root" : name);
      state->group()->set_name(is_new ? known->second : known->second + "-" + name);
    }
    const auto is_state = [&](const std::weak_ptr<State>& other) { return other.lock() == state; };
    if (state == nullptr || std::ranges::any_of(shared_->states, is_state)) return;
    if (state->is_root_) {
      throw CollectiveError("KB-A021",
                            "FSDP state has already been lazily initialized for {}\nFSDP requires "
                            "running forward through the root module first (rank {})",
                            name, torch_.distributed.get_rank());
    }
    state->is_root_ = state.get() == this;
    state->shared_ = shared_;
    shared_->states.push_back(state);
    if (ParamGroup* const group = state->group()) group->set_context(shared_->comm);
  });
  if (group_ != nullptr && !has_own_reshard_setting) group_->reshard_after_forward = false;
  name_parameters();
}

// Names are those in the root.
void State::name_parameters() {
  const auto names = modules_.front()->named_parameters();
  for (const std::weak_ptr<State>& state : shared_->states) {
    if (ParamGroup* const group = state.lock()->group()) group->set_names(names);
  }
}

void State::begin_forward() {
  if (!is_root_) become_root();
  if (!shared_->forward_root.expired()) return;
  end_thrown_backward();
  begin_graph();
  shared_->forward_root = weak_from_this();
  comm().sent.clear();
  comm().step_began = nn::parallel::device_instant(torch_, torch_.ahbm.current_device());
  ++comm().steps;
  // An optimizer of the current stream has written the shards that are gathered.
  comm().copy_in.wait_stream(torch_.ahbm.current_stream());
}

// The order of forward passes is that in which backward passes prefetch.  Passes whose graphs are
// gone, such as those of a validation, have no backward pass.
void State::begin_graph() {
  shared_->graph = shared_->graphs.lock();
  if (shared_->graph == nullptr) {
    forget_forwards_from(0);
    shared_->graph = std::make_shared<const bool>(true);
    shared_->graphs = shared_->graph;
  }
  shared_->first_forward = comm().forward_order.size();
}

void State::forget_forwards_from(std::size_t begin) noexcept {
  if (shared_->comm->forward_order.size() <= begin) return;
  shared_->comm->forward_order.resize(begin);
  for (const std::weak_ptr<State>& each : shared_->states) {
    const std::shared_ptr<State> state = each.lock();
    if (state != nullptr && state->group_ != nullptr) state->group_->forget_forwards_from(begin);
  }
}

Tensor State::pre_forward(nn::Module&, const Tensor& input) {
  if (!is_of_several_) return pre_forward(input);
  if (!unended_.empty()) return input;
  unended_ = modules_;
  return pre_forward(input);
}

Tensor State::post_forward(nn::Module& module, const Tensor& output) {
  std::erase(unended_, &module);
  return unended_.empty() ? post_forward(output) : output;
}

void State::forward_has_thrown() noexcept {
  unended_.clear();
  if (computes_again()) return;  // and so the backward pass throws
  pass_ = Pass::idle;
  if (group_ != nullptr) group_->forward_has_thrown();
  if (shared_->forward_root.lock().get() != this) return;
  shared_->forward_root.reset();
  shared_->graph.reset();
  forget_forwards_from(shared_->first_forward);
  for (const std::weak_ptr<State>& each : shared_->states) {  // some may be gathered ahead
    const std::shared_ptr<State> state = each.lock();
    if (state != nullptr && state->group_ != nullptr) state->group_->forward_has_thrown();
  }
}

void State::forward_returned_no_tensor() {
  throw CollectiveError(
      "KB-A019",
      "fully_shard: forward() of a module that it was called with returns something else than a "
      "tensor, so its backward pass could not be told: return one tensor, or call fully_shard with "
      "the modules inside of it (rank {})",
      torch_.distributed.get_rank());
}

// The text is torch's.
void State::warn_of_uncalled() {
  if (unended_.empty()) return;
  fmt::print(stderr,
             "kernbench: warning: {} of the {} modules passed to fully_shard did not run forward "
             "before backward, which is error-prone since FSDP post-forward/pre-backward logic "
             "will not run for these modules. We recommend passing only modules that run forward "
             "together. (rank {})\n",
             unended_.size(), modules_.size(), torch_.distributed.get_rank());
  unended_.clear();
}

Tensor State::pre_forward(const Tensor& input) {
  if (computes_again()) {
    if (group_ != nullptr) group_->pre_backward(false);
    return input;
  }
  begin_forward();
  pass_ = Pass::forward;
  Tensor taken = input;
  if (policy_.cast_forward_inputs) taken = cast_floating(input, policy_.param_dtype);
  if (group_ != nullptr) {
    group_->pre_forward();
    // post_backward() takes the parameters' gradients: none of them may still be deferred.
    const ops::FusionScope none_is_deferred(simulation_of(torch_), nullptr);
    taken = autograd::record("fully_shard", taken, {taken},
                             [self = shared_from_this()](const Tensor& gradient) {
                               self->group()->post_backward();
                               return std::vector{gradient};
                             });
  }
  for (const auto& next : forward_prefetch) {
    const auto state = next.lock();
    if (state != nullptr && state->group() != nullptr) state->group()->unshard();
  }
  return taken;
}

Tensor State::post_forward(const Tensor& output) {
  if (computes_again()) return output;
  if (group_ != nullptr) group_->post_forward();
  pass_ = Pass::idle;
  if (autograd::needs_grad(output)) {
    output.register_hook([state = weak_from_this(), graph = shared_->graph](const Tensor&) {
      if (const auto self = state.lock()) self->pre_backward();
    });
  }
  if (shared_->forward_root.lock().get() == this) {
    comm().free_last_gathered();
    shared_->forward_root.reset();
    shared_->graph.reset();
  }
  return cast_floating(output, policy_.output_dtype);
}

// The backward pass

bool State::computes_again() const {
  return pass_ == Pass::pre_backward && !shared_->backward_pass.expired();
}

// If an exception has left the last backward pass, nothing of it is used any more.
void State::end_thrown_backward() {
  const bool has_thrown = shared_->has_begun_backward && shared_->backward_pass.expired();
  if (!has_thrown) return;
  shared_->has_begun_backward = false;
  for (const std::weak_ptr<State>& each : shared_->states) {
    const std::shared_ptr<State> state = each.lock();
    if (state == nullptr) continue;
    state->pass_ = Pass::idle;
    state->unended_.clear();
    if (state->group_ != nullptr) state->group_->backward_has_thrown();
  }
  comm().forward_order.clear();
}

void State::begin_backward() {
  end_thrown_backward();
  const auto pass = std::make_shared<const bool>(true);
  shared_->backward_pass = pass;
  shared_->has_begun_backward = true;
  autograd::queue_callback(simulation_of(torch_),
                           [self = shared_from_this(), pass] { self->end_backward(); });
}

void State::pre_backward() {
  if (shared_->backward_pass.expired()) begin_backward();
  pass_ = Pass::pre_backward;
  if (group_ != nullptr) group_->pre_backward(backward_prefetch.empty());
  for (const auto& next : backward_prefetch) {
    const auto state = next.lock();
    if (state != nullptr && state->group() != nullptr) state->group()->unshard();
  }
}

// Groups whose input needs no gradient have not been told of the end of their backward pass.
void State::end_backward() {
  const bool is_last = shared_->is_last_backward && !shared_->defers_reduction;
  for (const std::weak_ptr<State>& each : shared_->states) {
    const std::shared_ptr<State> state = each.lock();
    if (state == nullptr) continue;
    state->pass_ = Pass::idle;
    state->warn_of_uncalled();
    ParamGroup* const group = state->group();
    if (group == nullptr) continue;
    if (!group->has_ended_backward()) group->post_backward();
    if (is_last) group->finalize_backward();
  }
  shared_->has_begun_backward = false;
  if (!is_last) return;
  comm().forward_order.clear();
  if (ParamGroup* const last = comm().last_reduced) last->wait_for_reduce_scatter();
}

nn::parallel::StepTimes State::last_step() {
  const auto now = nn::parallel::device_instant(torch_, torch_.ahbm.current_device());
  torch_.ahbm.synchronize();
  const CommContext& context = comm();
  nn::parallel::StepTimes step =
      nn::parallel::step_between(context.step_began ? *context.step_began : *now, *now);
  step.iteration = context.steps;
  for (const CommContext::Sent& sent : context.sent) {
    const Work::Times& times = *sent.times;
    step.buckets.push_back({step.buckets.size(), *sent.parameters, sent.bytes, sent.ready->at,
                            times.started, times.ended, times.hidden,
                            times.ended - times.started - times.hidden, sent.collective,
                            sent.group});
  }
  return step;
}

}  // namespace kernbench::distributed::fsdp
