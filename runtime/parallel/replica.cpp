#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/bucket_assignment.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/parallel/reducer.h"
#include "runtime/parallel/same_modules.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::parallel {

namespace {

constexpr Bytes kMiB = Bytes{1} << 20;
constexpr Bytes kBroadcastBytes = 250 * kMiB;  // of one broadcast of parameters and buffers

[[noreturn]] void refuse(const std::string& text) {
  throw CollectiveError("KB-A015", text);
}

RuntimeContext& find_context(const Module& module) {
  for (const Tensor& parameter : module.parameters()) {
    if (parameter.requires_grad()) return runtime::context_of(*parameter.storage()->simulation);
  }
  refuse(
      "DistributedDataParallel is not needed when a module doesn't have any parameter that "
      "requires "
      "a gradient.");
}

Bytes to_cap_bytes(double mebibytes) {
  const double bytes = mebibytes * static_cast<double>(kMiB);
  if (!std::isfinite(bytes) || bytes < 0 || bytes > 1e18) {
    refuse(fmt::format("DistributedDataParallel: bucket_cap_mb {} is no size of a bucket, in MiB",
                       mebibytes));
  }
  return static_cast<Bytes>(bytes);
}

// The names that _set_params_and_buffers_to_ignore_for_model() was given.
struct IgnoredNames final : runtime::Attachment {
  void forget_ranks() override { of_modules.clear(); }
  std::vector<std::string> of(const std::shared_ptr<Module>& module) const {
    for (const auto& [other, names] : of_modules) {
      if (other.lock() == module) return names;
    }
    return {};
  }

  std::vector<std::pair<std::weak_ptr<Module>, std::vector<std::string>>> of_modules;
};

std::vector<Tensor> without(const std::vector<std::string>& ignored,
                            const OrderedDict<Tensor>& tensors) {
  std::vector<Tensor> rest;
  for (const auto& item : tensors) {
    if (std::ranges::find(ignored, item.key()) == ignored.end()) rest.push_back(item.value());
  }
  return rest;
}

// Returns a copy of an output.  Its backward reaches the parameters of all outputs, so that those
// of outputs that the loss does not use are known to get no gradient (torch's _DDPSink).
Tensor sunk(std::vector<Tensor> outputs, std::size_t i) {
  const auto copy = [&] {
    const NoGradGuard no_grad(outputs[i]);
    return outputs[i].clone();
  };
  return autograd::record("_DDPSink", copy(), outputs,
                          [i, count = outputs.size()](const Tensor& gradient) {
                            std::vector<Tensor> gradients(count);
                            gradients[i] = gradient;
                            return gradients;
                          });
}

std::shared_ptr<Reducer> make_reducer(RuntimeContext& torch, const Module& module,
                                      const std::vector<std::string>& ignored,
                                      const DistributedDataParallelOptions& options,
                                      std::source_location location) {
  std::vector<std::string> names;
  std::vector<Tensor> parameters;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad() || std::ranges::find(ignored, item.key()) != ignored.end()) {
      continue;
    }
    ops::check_is_whole("DistributedDataParallel", item.value());
    names.push_back(item.key());
    parameters.push_back(item.value());
  }
  if (parameters.empty()) {
    refuse("DistributedDataParallel: all parameters that require a gradient are ignored");
  }
  return Reducer::make(torch, std::move(names), std::move(parameters),
                       {.process_group = options.process_group,
                        .first_bucket_bytes_cap = kMiB,
                        .bucket_bytes_cap = to_cap_bytes(options.bucket_cap_mb),
                        .find_unused_parameters = options.find_unused_parameters,
                        .gradient_as_bucket_view = options.gradient_as_bucket_view,
                        .static_graph = options.static_graph,
                        .location = location});
}

}  // namespace

Replica::Replica(std::shared_ptr<Module> module, const DistributedDataParallelOptions& options,
                 std::source_location location)
    : module_(std::move(module)),
      options_(options),
      location_(location),
      torch_(find_context(*module_)) {
  ignored_ = simulation_of(torch_).attachments().get<IgnoredNames>().of(module_);
  check_same_modules(torch_, *module_, options_.process_group, location_, ignored_);
  broadcast(state(), 0);
  reducer_ = make_reducer(torch_, *module_, ignored_, options_, location_);
}

Replica::~Replica() = default;

void _set_params_and_buffers_to_ignore_for_model(const std::shared_ptr<Module>& module,
                                                 const std::vector<std::string>& names) {
  const auto parameters = module->named_parameters();
  const auto buffers = module->named_buffers();
  for (const std::string& name : names) {
    if (parameters.contains(name) || buffers.contains(name)) continue;
    refuse(
        fmt::format("_set_params_and_buffers_to_ignore_for_model: the module has no parameter or "
                    "buffer '{}'; names are those of named_parameters()",
                    name));
  }
  auto& all = simulation_of(find_context(*module)).attachments().get<IgnoredNames>().of_modules;
  std::erase_if(all, [&](const auto& each) {
    const auto other = each.first.lock();
    return other == nullptr || other == module;
  });
  all.emplace_back(module, names);
}

std::vector<Tensor> Replica::buffers() const {
  return without(ignored_, module_->named_buffers());
}

std::vector<Tensor> Replica::state() const {
  std::vector<Tensor> all = without(ignored_, module_->named_parameters());
  std::ranges::copy(buffers(), std::back_inserter(all));
  return all;
}

// Gives all ranks the root's elements, of as many tensors as fit with each broadcast.
void Replica::broadcast(const std::vector<Tensor>& tensors, int root) const {
  for (const BucketParameters& bucket :
       bucket_assignment(bucket_items(tensors), std::array{kBroadcastBytes})) {
    std::vector<Tensor> together;
    for (const std::size_t number : bucket) together.push_back(tensors[number]);
    const FlatBuffer buffer(together, together.front().dtype());
    buffer.pack(together);
    torch_.distributed.broadcast(buffer.tensor(),
                                 {.group = options_.process_group, .group_src = root}, location_);
    buffer.unpack(together);
  }
}

bool Replica::is_synchronized() const {
  return reduces_gradients_ && is_grad_enabled(simulation_of(torch_));
}

void Replica::begin_forward() {
  const int root = is_in_join_ ? vote(true).last : 0;
  if (is_synchronized()) reducer_->prepare_for_forward();
  if (is_grad_enabled(simulation_of(torch_))) reducer_->rebuild_buckets();
  if (options_.broadcast_buffers && syncs_buffers_) broadcast(buffers(), root);
}

void Replica::end_forward(const std::vector<Tensor*>& outputs) {
  std::vector<Tensor> all;
  for (const Tensor* output : outputs) all.push_back(*output);
  syncs_buffers_ = is_synchronized();
  if (syncs_buffers_) reducer_->prepare_for_backward(all);
  if (!needs_sink()) return;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!autograd::needs_grad(all[i]) || all[i].is_leaf()) continue;
    *outputs[i] = sunk(all, i);
  }
}

void Replica::prepare_for_forward() {
  reducer_->prepare_for_forward();
}

void Replica::prepare_for_backward(const std::vector<Tensor>& outputs) {
  reducer_->prepare_for_backward(outputs);
}

void Replica::forget_backward() {
  reducer_->forget_backward();
}

// As in torch: where unused parameters are found by each pass, or by the first one.
bool Replica::needs_sink() const {
  return options_.static_graph ? reducer_->iteration() == 1 : options_.find_unused_parameters;
}

// Uneven inputs

// Every rank's vote: votes take no simulated time.
Replica::Votes Replica::vote(bool has_inputs) const {
  std::vector<Vote> all;
  torch_.distributed.all_gather_object(all, Vote{has_inputs, has_inputs && is_synchronized()},
                                       options_.process_group, location_);
  Votes votes;
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
    const Vote& own = all[static_cast<std::size_t>(rank)];
    votes.reduce = votes.reduce || own.is_synchronized;
    if (!own.has_inputs) continue;
    ++votes.active;
    votes.last = rank;
  }
  const bool is_early = votes.active > 0 && votes.active < static_cast<int>(all.size());
  if (is_early && join_.throw_on_early_termination) {
    throw CollectiveError("KB-A016",
                          "Detected at least one rank that exhausted inputs. Throwing across all "
                          "ranks. ({} of {} ranks have inputs)",
                          votes.active, all.size());
  }
  if (!join_.divide_by_initial_world_size) reducer_->set_divisor(std::max(votes.active, 1));
  return votes;
}

void Replica::begin_join(const JoinOptions& options) {
  if (!options.enable) return;
  join_ = options;
  is_in_join_ = true;
  has_joined_ = true;
}

void Replica::end_join() {
  if (!is_in_join_) return;
  bool is_last = true;
  for (Votes votes = vote(false); votes.active > 0; votes = vote(false)) {
    is_last = false;
    reducer_->rebuild_buckets();
    if (options_.broadcast_buffers && syncs_buffers_) broadcast(buffers(), votes.last);
    syncs_buffers_ = votes.reduce;
    if (votes.reduce) reducer_->shadow_pass();
  }
  is_in_join_ = false;
  reducer_->set_divisor(torch_.distributed.get_world_size(options_.process_group));
  std::vector<int> last;
  torch_.distributed.all_gather_object(last, is_last ? 1 : 0, options_.process_group, location_);
  const auto found = std::ranges::find(last.rbegin(), last.rend(), 1);
  broadcast(state(), static_cast<int>(last.rend() - found) - 1);
}

void Replica::register_comm_hook(CommHook hook, std::string its_name) {
  reducer_->register_comm_hook(std::move(hook));
  hook_name_ = std::move(its_name);
}

StepTimes Replica::last_step() const {
  torch_.ahbm.synchronize();
  return reducer_->last_step();
}

}  // namespace kernbench::nn::parallel
