#include "runtime/parallel/fully_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <unordered_set>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/distributed.h"
#include "runtime/parallel/fsdp_param_group.h"
#include "runtime/parallel/fsdp_shards.h"
#include "runtime/parallel/fsdp_state.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed::fsdp {

namespace {

// Adds to `all` the parameters that no inner call has and that are not `known`, inner modules'
// first, as torch orders them.
void collect(nn::Module& module, const std::string& prefix,
             std::unordered_set<const Tensor::Storage*>& known, OrderedDict<Tensor>& all) {
  for (const auto& child : module.named_children()) {
    if (State::of(*child.value()) != nullptr) continue;
    collect(*child.value(), prefix + child.key() + ".", known, all);
  }
  for (const auto& item : module.named_parameters(false)) {
    if (!known.insert(item.value().storage().get()).second) continue;
    all.insert(prefix + item.key(), item.value());
  }
}

// Groups

struct Groups {
  ProcessGroup shard;
  std::optional<ProcessGroup> replicate;
};

Groups find_groups(const std::optional<DeviceMesh>& mesh) {
  if (!mesh) return {};
  if (mesh->ndim() == 1) return {mesh->get_group(0), std::nullopt};
  if (mesh->ndim() != 2) {
    refuse(fmt::format("fully_shard expects a 1D or 2D DeviceMesh but got one of {} dimensions",
                       mesh->ndim()));
  }
  if (mesh->mesh_dim_names().empty()) {
    refuse("Please init the 2D mesh for HSDP with mesh_dim_names specified");
  }
  return {mesh->get_group(1), mesh->get_group(0)};
}

// Ranks must agree on this text, which has a line for each parameter.
using Description = std::shared_ptr<const std::vector<std::string>>;

Description describe(const OrderedDict<Tensor>& parameters) {
  std::vector<std::string> lines;
  for (const auto& item : parameters) {
    lines.push_back(fmt::format("'{}' {} {}", item.key(), to_string(item.value().shape()),
                                name_of(item.value().dtype())));
  }
  return std::make_shared<const std::vector<std::string>>(std::move(lines));
}

// Each rank compares its own with that of the group's first rank.
void compare(RuntimeContext& torch, const Description& description, const ProcessGroup& group,
             std::source_location location) {
  std::vector<Description> sent{description};
  torch.distributed.broadcast_object_list(sent, {.group = group, .group_src = 0}, location);
  const std::vector<std::string>& own = *description;
  const std::vector<std::string>& first = *sent.front();
  if (own == first) return;
  const auto [mine, theirs] = std::ranges::mismatch(own, first);
  refuse(fmt::format(
      "fully_shard expects the same module on all ranks: of the parameters that it is to shard, "
      "rank {} has {} as number {}, and rank {} has {}",
      torch.distributed.get_rank(), mine == own.end() ? "none" : *mine, mine - own.begin(),
      torch.distributed.get_global_rank(group, 0), theirs == first.end() ? "none" : *theirs));
}

// The ranks that keep the parameters among them after the forward pass form groups as large as the
// option says.
void set_reshard_after_forward(RuntimeContext& torch, ParamGroup& group,
                               const FullyShardOptions& options, const ProcessGroup& shard_group,
                               std::source_location location) {
  const ReshardAfterForward wanted = options.reshard_after_forward.value_or(true);
  const std::vector<int> ranks = torch.distributed.get_process_group_ranks(shard_group);
  const int all = static_cast<int>(ranks.size());
  if (!wanted.ranks) {
    group.reshard_after_forward = wanted.is_wanted;
    return;
  }
  const int count = *wanted.ranks;
  if (count < 1 || count > all || all % count != 0) {
    refuse(
        fmt::format("If passing reshard_after_forward as an int, it should be a factor of {}, "
                    "not {} (rank {})",
                    all, count, torch.distributed.get_rank()));
  }
  group.reshard_after_forward = count > 1;  // alone, a rank keeps everything
  if (count == 1 || count == all) return;
  const int first = torch.distributed.get_rank(shard_group) / count * count;
  group.keep_parts_in(torch.distributed.new_group(
      std::span(ranks).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
      {.use_local_synchronization = true, .sort_ranks = false}, location));
}

std::unique_ptr<ParamGroup> make_group(RuntimeContext& torch,
                                       const std::vector<nn::Module*>& modules,
                                       const OrderedDict<Tensor>& managed,
                                       const FullyShardOptions& options, const Groups& groups,
                                       std::source_location location) {
  if (managed.is_empty()) return nullptr;
  const Tensor first = managed.begin()->value();
  for (const auto& item : managed) check_parameter(item.key(), item.value(), first);
  std::vector<ShardedParameter> parameters;
  for (const auto& item : managed) {
    parameters.push_back(
        make_shard(torch, item.key(), item.value(), groups.shard, options.mp_policy));
    for (nn::Module* const module : modules) {
      module->apply([&](nn::Module& inner) {
        inner.replace_parameter(parameters.back().whole, parameters.back().shard);
      });
    }
  }
  auto group = std::make_unique<ParamGroup>(
      ParamGroup::Setting{torch, groups.shard, groups.replicate, options.mp_policy, location},
      std::move(parameters));
  set_reshard_after_forward(torch, *group, options, groups.shard, location);
  return group;
}

RuntimeContext& find_context(const std::vector<nn::Module*>& modules) {
  for (const nn::Module* const module : modules) {
    for (const Tensor& parameter : module->parameters()) {
      runtime::check_on_device(parameter, "fully_shard");
      return runtime::context_of(*parameter.storage()->simulation);
    }
  }
  refuse("fully_shard: the module has no parameters");
}

// Returns each of the modules once, but those inside of others (torch's _get_root_modules).
std::vector<nn::Module*> outermost(const std::vector<std::shared_ptr<nn::Module>>& modules) {
  std::vector<nn::Module*> inner;
  for (const std::shared_ptr<nn::Module>& module : modules) {
    module->apply([&](nn::Module& each) {
      if (&each != module.get()) inner.push_back(&each);
    });
  }
  std::vector<nn::Module*> all;
  for (const std::shared_ptr<nn::Module>& module : modules) {
    if (std::ranges::find(inner, module.get()) != inner.end()) continue;
    if (std::ranges::find(all, module.get()) == all.end()) all.push_back(module.get());
  }
  return all;
}

FSDPModule shard_modules(const std::vector<nn::Module*>& modules, const FullyShardOptions& options,
                         std::source_location location) {
  if (options.offload_policy) {
    refuse(
        "fully_shard: offload_policy: the host has no simulated memory, so parameters stay on "
        "the device; leave it out");
  }
  for (const nn::Module* const module : modules) {
    if (State::of(*module) == nullptr) continue;
    refuse(
        "Each distinct composable distributed API can only be applied to a module once. The "
        "following APIs have already been applied to the following module: ['fully_shard']");
  }
  RuntimeContext& torch = find_context(modules);
  const NoGradGuard no_grad(torch);
  const Groups groups = find_groups(options.mesh);
  OrderedDict<Tensor> managed;
  std::unordered_set<const Tensor::Storage*> known;
  for (const Tensor& tensor : options.ignored_params) known.insert(tensor.storage().get());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const std::string prefix = modules.size() == 1 ? "" : fmt::format("{}.", i);
    collect(*modules[i], prefix, known, managed);
  }
  const Description description = describe(managed);
  compare(torch, description, groups.shard, location);
  if (groups.replicate) compare(torch, description, *groups.replicate, location);
  const auto state = std::make_shared<State>(
      torch, modules, options, make_group(torch, modules, managed, options, groups, location));
  for (nn::Module* const module : modules) {
    module->set_extension(state);
    module->register_forward_pre_hook([of = state.get()](nn::Module& called, const Tensor& input) {
      return of->pre_forward(called, input);
    });
    module->register_forward_hook(
        [of = state.get()](nn::Module& called, const Tensor&, const Tensor& output) {
          return of->post_forward(called, output);
        });
  }
  return FSDPModule(state);
}

}  // namespace

FSDPModule fully_shard(nn::Module& module, const FullyShardOptions& options,
                       std::source_location location) {
  return shard_modules({&module}, options, location);
}

FSDPModule fully_shard(const std::vector<std::shared_ptr<nn::Module>>& modules,
                       const FullyShardOptions& options, std::source_location location) {
  return shard_modules(outermost(modules), options, location);
}

// FSDPModule

void UnshardHandle::wait() const {
  if (ParamGroup* const group = state_->group()) group->wait_for_unshard();
}

void FSDPModule::reshard() const {
  if (ParamGroup* const group = state_->group()) group->reshard();
}

UnshardHandle FSDPModule::unshard(const UnshardOptions& options) const {
  state_->unshard();
  const UnshardHandle handle(state_);
  if (!options.async_op) handle.wait();
  return handle;
}

namespace {

// Calls function(group) for the groups of a module and, if it recurses, of those inside of it.
void for_each_group(State& state, const RecurseOptions& options,
                    const std::function<void(ParamGroup&)>& function) {
  state.for_each(options, [&](State& each) {
    if (ParamGroup* const group = each.group()) function(*group);
  });
}

}  // namespace

void FSDPModule::set_requires_gradient_sync(bool requires_gradient_sync,
                                            const RecurseOptions& options) const {
  for_each_group(*state_, options, [&](ParamGroup& group) {
    group.reduce_grads = group.all_reduce_grads = requires_gradient_sync;
  });
}

void FSDPModule::set_requires_all_reduce(bool requires_all_reduce,
                                         const RecurseOptions& options) const {
  for_each_group(*state_, options,
                 [&](ParamGroup& group) { group.all_reduce_grads = requires_all_reduce; });
}

void FSDPModule::set_reshard_after_forward(bool reshard_after_forward,
                                           const RecurseOptions& options) const {
  state_->for_each(options, [&](State& state) {
    state.has_own_reshard_setting = true;
    if (state.group() == nullptr) return;
    state.group()->reshard_after_forward = reshard_after_forward;
    state.group()->keeps_part = false;
  });
}

void FSDPModule::set_gradient_divide_factor(double factor) const {
  if (!std::isfinite(factor) || factor <= 0) {
    refuse(fmt::format("set_gradient_divide_factor: a positive number is wanted, not {}", factor));
  }
  if (ParamGroup* const group = state_->group()) group->gradient_divide_factor = factor;
}

void FSDPModule::set_reshard_after_backward(bool reshard_after_backward,
                                            const RecurseOptions& options) const {
  for_each_group(*state_, options,
                 [&](ParamGroup& group) { group.reshard_after_backward = reshard_after_backward; });
}

nn::parallel::StepTimes FSDPModule::last_step() const {
  return state_->last_step();
}

void FSDPModule::set_is_last_backward(bool is_last_backward) const {
  state_->set_is_last_backward(is_last_backward);
}

void FSDPModule::set_modules_to_forward_prefetch(const std::vector<FSDPModule>& modules) const {
  state_->forward_prefetch.clear();
  for (const FSDPModule& module : modules) state_->forward_prefetch.push_back(module.state_);
}

void FSDPModule::set_modules_to_backward_prefetch(const std::vector<FSDPModule>& modules) const {
  state_->backward_prefetch.clear();
  for (const FSDPModule& module : modules) state_->backward_prefetch.push_back(module.state_);
}

}  // namespace kernbench::distributed::fsdp
