#include "runtime/parallel/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/callbacks.h"
#include "runtime/autograd/reach.h"
#include "runtime/simulation/named_part.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::parallel {

namespace {

bool is_partial(const Tensor& tensor) {
  return tensor.defined() && runtime::is_sum(*tensor.storage());
}

}  // namespace

std::shared_ptr<Reducer> Reducer::make(RuntimeContext& torch, std::vector<std::string> names,
                                       std::vector<Tensor> parameters,
                                       const ReducerOptions& options) {
  std::shared_ptr<Reducer> made(
      new Reducer(torch, std::move(names), std::move(parameters), options));
  for (std::size_t i = 0; i < made->parameters_.size(); ++i) {
    autograd::add_reach_hook(made->parameters_[i], [reducer = std::weak_ptr(made), i] {
      // Parameters may outlive the module that wraps them, and then their hooks do nothing.
      if (const auto self = reducer.lock()) self->arrived(i);
    });
  }
  return made;
}

Reducer::Reducer(RuntimeContext& torch, std::vector<std::string> names,
                 std::vector<Tensor> parameters, const ReducerOptions& options)
    : torch_(torch),
      names_(std::move(names)),
      parameters_(std::move(parameters)),
      options_(options),
      rank_(torch.distributed.get_rank(options.process_group)),
      divisor_(torch.distributed.get_world_size(options.process_group)),
      uses_(parameters_.size(), 0),
      is_used_(parameters_.size(), false) {
  std::vector<BucketParameters> assignment = assign({});
  std::ranges::reverse(assignment);  // gradients come about in the reverse order of their uses
  make_buckets(std::move(assignment));
  for (const Bucket& bucket : buckets_) first_bucket_bytes_.push_back(bucket.bytes);
  first_bucket_limits_ = first_limits();
}

ReducerState Reducer::state() const {
  return {rank_, options_.static_graph, options_.find_unused_parameters, names_};
}

// Buckets

std::vector<BucketParameters> Reducer::assign(const std::vector<std::size_t>& order) const {
  std::vector<Bytes> limits{options_.first_bucket_bytes_cap, options_.bucket_bytes_cap};
  // The first step learns the order in which gradients arrive, so torch puts all parameters of a
  // type into one bucket until then.
  if (order.empty() && !searches_unused()) limits = {std::numeric_limits<Bytes>::max()};
  return bucket_assignment(bucket_items(parameters_), limits, order);
}

void Reducer::make_buckets(std::vector<BucketParameters> assignment) {
  buckets_.clear();
  bucket_of_.assign(parameters_.size(), 0);
  for (BucketParameters& parameters : assignment) {
    std::vector<Tensor> tensors;
    Bytes bytes = 0;
    for (const std::size_t parameter : parameters) {
      bucket_of_[parameter] = buckets_.size();
      tensors.push_back(parameters_[parameter]);
      bytes += bytes_of(tensors.back());
    }
    const DType dtype = tensors.front().dtype();
    buckets_.push_back({std::move(parameters), bytes, FlatBuffer(tensors, dtype), {}});
    make_views(buckets_.back());
  }
}

void Reducer::make_views(Bucket& bucket) const {
  bucket.views.assign(bucket.parameters.size(), {});
  if (!options_.gradient_as_bucket_view) return;
  // The views become gradients themselves, so they must not be recorded as operators on the buffer.
  const NoGradGuard no_grad(torch_);
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    bucket.views[i] = bucket.buffer.view(i, parameters_[bucket.parameters[i]].shape());
  }
}

void Reducer::rebuild_buckets() {
  check_finished();
  if (!should_rebuild() || rebuilt_order_.empty()) return;
  make_buckets(from_rank_0(assign(std::exchange(rebuilt_order_, {}))));
  has_rebuilt_buckets_ = true;
}

// Rank 0 broadcasts, as in torch, the parameters in the order of the buckets with the number of
// buckets behind them, and then the buckets' sizes.
std::vector<BucketParameters> Reducer::from_rank_0(const std::vector<BucketParameters>& own) {
  std::vector<std::size_t> numbers;
  std::vector<std::size_t> sizes;
  for (const BucketParameters& bucket : own) {
    numbers.insert(numbers.end(), bucket.begin(), bucket.end());
    sizes.push_back(bucket.size());
  }
  numbers.push_back(own.size());
  numbers = broadcast(numbers);
  sizes.resize(numbers.back(), 0);
  sizes = broadcast(sizes);
  std::vector<BucketParameters> buckets;
  auto next = numbers.begin();
  for (const std::size_t size : sizes) {
    const auto end = next + static_cast<std::ptrdiff_t>(size);
    buckets.emplace_back(next, end);
    next = end;
  }
  return buckets;
}

std::vector<std::size_t> Reducer::broadcast(const std::vector<std::size_t>& numbers) {
  const runtime::MadeAs buffers(simulation_of(torch_), MemoryKind::communication);
  const std::vector<float> own(numbers.begin(), numbers.end());
  const Tensor sent = torch_.tensor(own, {std::ssize(own)}, {.dp = DPPolicy::on_one_pe()});
  torch_.distributed.broadcast(sent, {.group = options_.process_group, .group_src = 0},
                               options_.location);
  // Without values it only takes time.  Ranks have the same module, so their numbers are rank 0's.
  if (!torch_.options().data) return numbers;
  const std::vector<float> received = sent.to_vector();
  return {received.begin(), received.end()};
}

void Reducer::check_finished() const {
  if (!must_finish_) return;
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!ready_.contains(i)) missing.push_back(i);
  }
  refuse_unfinished(state(), missing);
}

// A pass

void Reducer::register_comm_hook(CommHook hook) {
  if (hook_) {
    throw CollectiveError(
        "KB-A015",
        "register_comm_hook or register_builtin_comm_hook can only be called once. (rank {})",
        rank_);
  }
  hook_ = std::move(hook);
}

void Reducer::prepare_for_forward() {
  ++iteration_;
  begin_step();
}

void Reducer::prepare_for_backward(const std::vector<Tensor>& outputs) {
  expects_gradients_ = true;
  ready_order_.clear();
  next_bucket_ = 0;
  for (Bucket& bucket : buckets_) bucket.pending = bucket.parameters.size();
  // A static graph has the same uses in each iteration, so a parameter that is used twice is ready
  // at its second gradient.
  if (is_later_static_iteration()) uses_ahead_ = uses_;
  has_marked_unused_ = false;
  has_queued_end_ = false;
  ready_.clear();
  if (!is_later_static_iteration()) knows_used_ = false;
  if (!searches_unused()) return;
  unused_.clear();
  std::set<const Tensor::Storage*> reached;
  for (const Tensor& leaf : autograd::collect_leaves(outputs)) reached.insert(leaf.storage().get());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!reached.contains(parameters_[i].storage().get())) unused_.push_back(i);
  }
  if (!unused_.empty() || std::exchange(has_warned_, true)) return;
  fmt::print(stderr,
             "kernbench: warning: find_unused_parameters=True was specified in DDP constructor, "
             "but did not find any unused parameters in the forward pass. This flag results in an "
             "extra traversal of the autograd graph every iteration,  which can adversely affect "
             "performance. If your model indeed never has any unused parameters in the forward "
             "pass, consider turning this flag off. Note that this warning may be a false positive "
             "if your model has flow control causing later iterations to have unused parameters. "
             "(rank {})\n",
             rank_);
}

void Reducer::arrived(std::size_t parameter) {
  // A gradient of an earlier pass counts, as in torch.
  if (parameters_[parameter].grad().defined()) is_used_[parameter] = true;
  // Under no_sync() gradients accumulate, and are reduced by the pass after it.
  if (!expects_gradients_) return;
  log_instant(&LoggedStep::backward_compute_start);
  ready_order_.push_back(parameter);
  if (is_first_static_iteration()) {
    ++uses_[parameter];
    // The first iteration of a static graph counts uses: what is ready is known only at its end.
    if (std::exchange(has_queued_end_, true)) return;
    autograd::queue_callback(simulation_of(torch_),
                             [self = shared_from_this()] { self->reduce_all(); });
    return;
  }
  // Unused parameters never arrive, so the first gradient of the pass marks them ready.
  if (!std::exchange(has_marked_unused_, true)) {
    for (const std::size_t unused : unused_) mark_ready(unused);
  }
  if (is_later_static_iteration()) {
    // Its graph has one backward(), at whose end torch leaves gradients as they are.
    if (!std::exchange(has_queued_end_, true)) {
      autograd::queue_callback(simulation_of(torch_), [self = shared_from_this()] {
        if (self->next_bucket_ < self->buckets_.size()) self->check_finished();
      });
    }
    if (uses_ahead_[parameter] == 0) refuse_changed_graph(state(), parameter);
    if (--uses_ahead_[parameter] > 0) return;
  }
  if (should_rebuild()) rebuilt_order_.push_back(parameter);
  mark_ready(parameter);
}

void Reducer::mark_ready(std::size_t parameter) {
  if (!ready_.insert(parameter).second) refuse_marked_twice(state(), parameter);
  must_finish_ = true;
  Bucket& bucket = buckets_[bucket_of_[parameter]];
  if (--bucket.pending == 0) {
    pack(bucket);
    reduce_ready_buckets();
  }
}

void Reducer::pack(Bucket& bucket) {
  std::vector<Tensor> gradients;
  for (const std::size_t parameter : bucket.parameters) {
    gradients.push_back(parameters_[parameter].grad());
  }
  if (std::ranges::any_of(gradients, is_partial)) {  // the last reduction has left it replicated
    std::vector<Tensor> forms;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      forms.push_back(gradients[i].defined() ? gradients[i] : parameters_[bucket.parameters[i]]);
    }
    bucket.buffer = FlatBuffer(forms, bucket.buffer.tensor().dtype());
    make_views(bucket);
  }
  // Gradients are divided before they are added up, as torch does, so that sums do not overflow.  A
  // hook divides by itself.
  bucket.buffer.pack(gradients, hook_ ? 1 : 1.0 / divisor_);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined() || !bucket.views[i].defined()) continue;
    autograd::set_grad(parameters_[bucket.parameters[i]], bucket.views[i]);
  }
  bucket.ready = device_instant(torch_, bucket.buffer.tensor().device());
}

// Buckets are reduced in their order on every rank, so that no two ranks wait for each other.
void Reducer::reduce_ready_buckets() {
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].pending == 0) {
    reduce(next_bucket_++);
  }
  if (next_bucket_ < buckets_.size()) return;
  if (searches_unused()) reduce_used();
  autograd::queue_callback(simulation_of(torch_), [self = shared_from_this()] {
    if (self->is_later_static_iteration() && self->should_rebuild()) {
      auto& order = self->rebuilt_order_;
      order.insert(order.end(), self->unused_.begin(), self->unused_.end());
    }
    self->finish();
  });
}

void Reducer::reduce(std::size_t index) {
  const runtime::NamedPart part(simulation_of(torch_), "bucket", index);
  log_instant(&LoggedStep::backward_comm_start);
  Bucket& bucket = buckets_[index];
  const Tensor& buffer = bucket.buffer.tensor();
  if (!hook_) {
    bucket.mean =
        Future(torch_.distributed.all_reduce(
                   buffer, {.group = options_.process_group, .async_op = true}, options_.location),
               buffer);
    return;
  }
  std::vector<Tensor> parameters;
  for (const std::size_t parameter : bucket.parameters) {
    parameters.push_back(parameters_[parameter]);
  }
  GradBucket hooked(torch_, index, index + 1 == buckets_.size(), buffer, std::move(parameters));
  bucket.mean = hook_(hooked);
}

void Reducer::reduce_used() {
  const runtime::MadeAs buffers(simulation_of(torch_), MemoryKind::communication);
  const std::vector<float> own(is_used_.begin(), is_used_.end());
  used_ = torch_.tensor(own, {std::ssize(own)}, {.dp = DPPolicy::on_one_pe()});
  used_work_ = torch_.distributed.all_reduce(
      used_, {.group = options_.process_group, .async_op = true}, options_.location);
}

void Reducer::reduce_all() {
  reduce_used();
  unused_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (uses_[i] == 0) unused_.push_back(i);
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    pack(buckets_[i]);
    reduce(i);
  }
  finish();
}

void Reducer::finish() {
  log_instant(&LoggedStep::backward_compute_end);
  expects_gradients_ = false;
  must_finish_ = false;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const runtime::NamedPart part(simulation_of(torch_), "bucket", i);
    unpack(buckets_[i]);
  }
  // No work of the pass may be left under way, also if this rank did not need the answer.
  if (used_work_ && !knows_used_) used_work_.wait();
  used_work_ = {};
  if (!options_.static_graph) is_used_.assign(parameters_.size(), false);
  log_instant(&LoggedStep::backward_comm_end);
}

// Gradients that are views of the buffer have the mean already, unless a hook has put it elsewhere.
void Reducer::unpack(Bucket& bucket) {
  const Tensor mean = bucket.mean->wait();
  const bool is_in_place = mean.storage()->memory == bucket.buffer.tensor().storage()->memory;
  const bool tells_used = options_.static_graph || options_.find_unused_parameters;
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    gradients.emplace_back();
    const std::size_t parameter = bucket.parameters[i];
    if (tells_used && !is_used_somewhere(parameter)) continue;
    Tensor like = parameters_[parameter];
    Tensor& grad = like.mutable_grad();
    const Tensor& view = bucket.views[i];
    if (view.defined()) {
      if (!grad.defined()) grad = view;
      if (grad.storage() != view.storage()) refuse_other_gradient(state(), parameter);
      if (!is_in_place) gradients.back() = view;
      continue;
    }
    if (!grad.defined() || is_partial(grad)) {
      autograd::set_grad(like, torch_.empty_like(like.detach()));
      grad.storage()->name = like.name() + ".grad";
    }
    gradients.back() = grad;
  }
  bucket.buffer.unpack(mean, gradients);
}

void Reducer::shadow_pass() {
  ++iteration_;
  prepare_for_backward({});
  if (is_first_static_iteration()) reduce_used();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].buffer.pack(std::vector<Tensor>(buckets_[i].parameters.size()));
    buckets_[i].ready = device_instant(torch_, buckets_[i].buffer.tensor().device());
    reduce(i);
  }
  if (searches_unused()) reduce_used();
  for (Bucket& bucket : buckets_) bucket.mean->wait();
  if (used_work_) std::exchange(used_work_, {}).wait();
  expects_gradients_ = false;
  if (!should_rebuild()) return;
  rebuilt_order_.resize(parameters_.size());
  std::iota(rebuilt_order_.begin(), rebuilt_order_.end(), 0);
}

// Waits for the other ranks' answers only if this rank has not used the parameter.
bool Reducer::is_used_somewhere(std::size_t parameter) {
  if (is_used_[parameter] || !used_work_) return is_used_[parameter];
  if (!std::exchange(knows_used_, true)) {
    used_work_.wait();
    if (torch_.options().data) {
      const std::vector<float> counts = used_.to_vector();
      for (std::size_t i = 0; i < counts.size(); ++i) is_used_[i] = counts[i] > 0;
    }
  }
  return is_used_[parameter];
}

}  // namespace kernbench::nn::parallel
