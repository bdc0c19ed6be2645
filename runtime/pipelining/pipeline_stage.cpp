#include "runtime/pipelining/pipeline_stage.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/distributed.h"
#include "runtime/pipelining/stage_state.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed::pipelining {

namespace {

// Messages between two ranks meet by what they carry, in whichever order they are sent.
int tag_of(const Action& computation, const StageState& stage) {
  const int kind = computation.kind == ActionKind::forward ? 0 : 1;
  return (computation.microbatch * stage.count + computation.stage) * 2 + kind;
}

// Different policies may place a tensor alike, such as those of one PE.
bool lie_alike(const TensorKind& a, const TensorKind& b) {
  const auto is_same = [](const ShardInfo& one, const ShardInfo& other) {
    return one.cube == other.cube && one.pe == other.pe && one.offset == other.offset &&
           one.shape == other.shape;
  };
  return is_partial(a.options.dp) == is_partial(b.options.dp) &&
         std::ranges::equal(a.parts, b.parts, is_same);
}

// Throws CollectiveError KB-C024, in torch's words, if a tensor is not what its receiver waits for.
void check_kind(const TensorKind& given, const TensorKind& wanted, int stage,
                std::string_view what) {
  const auto check = [&](bool is_right, std::string_view property, const auto& name) {
    if (is_right) return;
    throw CollectiveError("KB-C024", "Stage {} {} has a {} mismatch: expected {} actual {}", stage,
                          what, property, name(wanted), name(given));
  };
  check(given.shape == wanted.shape, "shape",
        [](const TensorKind& kind) { return to_string(kind.shape); });
  check(given.options.dtype == wanted.options.dtype, "dtype",
        [](const TensorKind& kind) { return torch_name_of(kind.options.dtype.value()); });
  check(lie_alike(given, wanted), "placement",
        [](const TensorKind& kind) { return to_string(kind.options.dp); });
}

void check_kind(const Tensor& given, const TensorKind& wanted, int stage, std::string_view what) {
  if (!given.defined()) {
    throw CollectiveError("KB-C024", "Stage {} has no {}: its output does not depend on its input",
                          stage, what);
  }
  check_kind(TensorKind::of(given).value(), wanted, stage, what);
}

}  // namespace

std::optional<TensorKind> TensorKind::of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return TensorKind{.shape = tensor.shape(),
                    .options = {.dtype = tensor.dtype(), .dp = tensor.dp()},
                    .parts = tensor.shards()};
}

void StageState::await_values(const Action& computation) {
  StageMicrobatch& own = at(computation.microbatch);
  Work none;
  Work& arrives = computation.kind == ActionKind::forward ? own.input_arrives
                  : is_backward(computation.kind)         ? own.gradient_arrives
                                                          : none;
  if (const Work work = std::exchange(arrives, {})) work.wait();
}

Tensor StageState::forward_checked(const Tensor& x) const {
  Tensor y = forward(x);
  if (y.defined()) return y;
  throw CollectiveError("KB-C024", "Stage {} forward outputs: the submodule returned no tensor",
                        index);
}

void StageState::run_forward(int microbatch, const LossFunction& loss_fn) {
  StageMicrobatch& own = at(microbatch);
  if (!is_first() && loss_fn) own.input.requires_grad_();
  own.output = forward_checked(own.input);
  if (!is_last()) check_kind(own.output, *output_kind, index, "forward outputs");
  if (!is_last() || !loss_fn) return;
  own.loss = loss_fn(own.output, own.target);
  if (!own.loss.defined()) {
    throw CollectiveError("KB-C024", "loss_fn returned no tensor for micro-batch {}", microbatch);
  }
}

void StageState::run_backward(int microbatch) {
  StageMicrobatch& own = at(microbatch);
  begin_backward_of_weights({result_of(own)});
  if (has_backward(own)) result_of(own).backward(own.output_gradient);
  end_backward(own, is_first() ? Tensor() : own.input.grad());
  end_backward_of_weights();
}

// The input of the first stage has no gradient, so that all of its backward is for the weights.
void StageState::run_backward_input(int microbatch) {
  StageMicrobatch& own = at(microbatch);
  std::vector<Tensor> inputs;
  if (!is_first()) inputs.push_back(own.input);
  std::shared_ptr<autograd::SplitBackward> split;
  std::vector<Tensor> gradients(1);
  if (has_backward(own)) {
    split = std::make_shared<autograd::SplitBackward>(result_of(own), own.output_gradient, inputs);
    if (!is_first()) gradients = split->take_input_gradients();
  }
  end_backward(own, gradients.front());
  own.split = std::move(split);
}

void StageState::run_backward_weight(int microbatch) {
  const auto split = std::exchange(at(microbatch).split, nullptr);
  begin_backward_of_weights(split == nullptr ? std::vector<Tensor>() : split->leaves());
  if (split != nullptr) split->run_weights();
  // The module's own end of its backward pass came with the half for the input.
  replicas.for_each_sharded([](fsdp::State& state) { state.add_deferred(); });
  end_backward_of_weights();
}

// False for a first stage without parameters that learn, such as a frozen embedding.
bool StageState::has_backward(const StageMicrobatch& own) const {
  return !is_first() || result_of(own).requires_grad();
}

// The last of a step's micro-batches reduces the gradients of all of them.
void StageState::begin_backward_of_weights(const std::vector<Tensor>& outputs) {
  if (--backwards_left == 0 && replicas.calls.prepare_for_backward) {
    replicas.calls.prepare_for_backward(outputs);
  }
}

void StageState::end_backward_of_weights() const {
  if (backwards_left == 0 && !has_reduce_action) run_for_shards(ActionKind::reduce_grad);
}

void StageReplicas::for_each_sharded(const std::function<void(fsdp::State&)>& function) const {
  if (module == nullptr) return;
  for (const auto& state : fsdp::State::outermost_of(*module)) function(*state);
}

void StageState::run_for_shards(ActionKind kind) const {
  replicas.for_each_sharded([kind](fsdp::State& state) {
    if (kind == ActionKind::unshard) state.unshard_all();
    if (kind == ActionKind::reshard) state.reshard_all();
    if (kind == ActionKind::reduce_grad) state.reduce_deferred();
  });
}

void StageState::begin_step(int microbatches_of_step, bool has_backward) {
  backwards_left = microbatches_of_step;
  microbatches.assign(static_cast<std::size_t>(microbatches_of_step), {});
  if (has_backward && replicas.calls.prepare_for_forward) replicas.calls.prepare_for_forward();
  replicas.for_each_sharded(
      [has_backward](fsdp::State& state) { state.set_defers_reduction(has_backward); });
}

void StageState::abandon_step() {
  microbatches.clear();
  sends.clear();
  if (replicas.calls.forget_backward) replicas.calls.forget_backward();
  replicas.for_each_sharded([](fsdp::State& state) { state.drop_deferred(); });
}

const Tensor& StageState::result_of(const StageMicrobatch& own) const {
  return is_last() ? own.loss : own.output;
}

// Frees what backward has used.
void StageState::end_backward(StageMicrobatch& own, const Tensor& input_gradient) const {
  if (!is_first()) check_kind(input_gradient, *input_kind, index, "input gradients");
  own = {.output = keeps_outputs ? own.output.detach() : Tensor(),
         .input_gradient = input_gradient,
         .loss = is_last() ? own.loss.detach() : Tensor()};
}

void StageState::accept_input(const TensorKind& kind) {
  if (!input_kind) input_kind = kind;
  check_kind(kind, *input_kind, index, "forward inputs");
}

void StageState::find_output_kind() {
  if (output_kind) return;
  const NoGradGuard no_grad(torch);
  const Tensor x = is_first() ? at(0).input : torch.zeros(input_kind->shape, input_kind->options);
  output_kind = TensorKind::of(forward_checked(x));
}

TensorKind StageState::receive_kind(int source) const {
  std::vector<TensorKind> kinds(1);
  torch.distributed.recv_object_list(kinds, std::nullopt,
                                     {.group = options.group, .group_src = source});
  return kinds.front();
}

void StageState::send_kind(int target) const {
  torch.distributed.send_object_list(std::vector{output_kind.value()}, std::nullopt,
                                     {.group = options.group, .group_dst = target});
}

void StageState::give_results(std::vector<Tensor>* losses, std::vector<Tensor>* outputs) const {
  if (losses != nullptr) losses->clear();
  if (outputs != nullptr) outputs->clear();
  for (const StageMicrobatch& each : microbatches) {
    if (losses != nullptr && each.loss.defined()) losses->push_back(each.loss);
    if (outputs != nullptr) outputs->push_back(each.output);
  }
}

void StageState::begin_receive(const Action& action, int source) {
  StageMicrobatch& own = at(action.microbatch);
  const bool is_forward = action.kind == ActionKind::receive_forward;
  const TensorKind& kind = is_forward ? input_kind.value() : output_kind.value();
  const runtime::MadeAs buffers(simulation_of(torch), MemoryKind::communication);
  const Tensor buffer = torch.empty(kind.shape, kind.options);
  const Action from{.stage = action.stage + (is_forward ? -1 : 1),
                    .kind = is_forward ? ActionKind::forward : ActionKind::backward,
                    .microbatch = action.microbatch};
  (is_forward ? own.input : own.output_gradient) = buffer;
  (is_forward ? own.input_arrives : own.gradient_arrives) = torch.distributed.irecv(
      buffer, {.group = options.group, .tag = tag_of(from, *this), .group_src = source});
}

void StageState::begin_send(const Tensor& x, const Action& action, int target) {
  const Action of{
      .stage = action.stage,
      .kind = action.kind == ActionKind::send_forward ? ActionKind::forward : ActionKind::backward,
      .microbatch = action.microbatch};
  sends.push_back(torch.distributed.isend(
      x.detach(), {.group = options.group, .tag = tag_of(of, *this), .group_dst = target}));
}

void StageState::scale_gradients(int by) const {
  const NoGradGuard no_grad(torch);
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.grad().div_(by);
  }
}

PipelineStage::PipelineStage(RuntimeContext& torch, std::vector<Tensor> parameters, int stage_index,
                             int num_stages, const PipelineStageOptions& options)
    : state_(std::make_shared<StageState>(
          StageState{.torch = torch,
                     .parameters = std::move(parameters),
                     .index = stage_index,
                     .count = num_stages,
                     .options = options,
                     .input_kind = TensorKind::of(options.input_args),
                     .output_kind = TensorKind::of(options.output_args)})) {
  if (stage_index < 0 || stage_index >= num_stages) {
    throw CollectiveError("KB-C024", "Stage index {} is out of range of {}", stage_index,
                          num_stages);
  }
  const int ranks = torch.distributed.get_world_size(options.group);
  if (ranks > num_stages) {
    throw CollectiveError("KB-C024",
                          "Pipeline group size {} cannot be larger than number of stages {}", ranks,
                          num_stages);
  }
}

void PipelineStage::set_forward(std::function<Tensor(const Tensor&)> forward) {
  state_->forward = std::move(forward);
}

void PipelineStage::set_module(std::shared_ptr<nn::Module> module) {
  state_->replicas.module = std::move(module);
}

void PipelineStage::set_calls(ReplicaCalls calls) {
  state_->replicas.calls = std::move(calls);
}

int PipelineStage::stage_index() const {
  return state_->index;
}
int PipelineStage::num_stages() const {
  return state_->count;
}

}  // namespace kernbench::distributed::pipelining
