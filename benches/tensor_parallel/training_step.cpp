#include "benches/tensor_parallel/training_step.h"

#include <cmath>

#include "runtime/simulation/simulation.h"
#include "runtime/parallel/step_times.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/run_ranks.h"
#include "sim_engine/base/check.h"
#include "tp/layers.h"
#include "tp/parallel_state.h"
#include "tp/parameter.h"

namespace kernbench::benches::tensor_parallel {

namespace {

// The elements of a part as a host tensor of this shape.
Tensor copy_elements(const DenseMatrix& whole, const Part& part, const Shape& shape) {
  std::vector<float> elements;
  elements.reserve(static_cast<std::size_t>(part.rows * part.columns));
  for (std::int64_t row = part.row; row < part.row + part.rows; ++row) {
    const auto first = whole.elements.begin() + row * whole.columns + part.column;
    elements.insert(elements.end(), first, first + part.columns);
  }
  return RuntimeContext::tensor(elements, shape);
}

class RankOfStep {
 public:
  RankOfStep(RuntimeContext& torch, const StepInput& input, const DenseModel* values, int rank)
      : torch_(torch),
        input_(input),
        values_(values),
        rank_(rank),
        world_size_(torch.distributed.get_world_size()) {}

  RankStep run(const BuildModel& build) {
    const RankModel model = build(torch_);
    RankStep step;
    step.parameters = model.parameters;
    step.x = tokens("x").requires_grad_();
    const Tensor gradient = tokens("dy");
    if (values_ != nullptr) load(step, gradient);

    torch_.distributed.barrier();
    step.began = torch_.engine().now();
    const ahbm::Event begin = timed_event();
    const runtime::DeviceActivity before = torch_.engine().activity(rank_);
    step.y = forward(model, step.x);
    step.forward_collectives = collectives_since(step.began).size();
    const ahbm::Event forward_end = timed_event();
    backward(step, gradient);
    const ahbm::Event end = timed_event();
    const auto device_end = nn::parallel::device_instant(torch_, rank_);
    end.synchronize();
    step.forward_ended = step.began + elapsed(begin, forward_end);
    step.ended = step.began + elapsed(begin, end);
    // The device is behind the host by the way of a launch.
    profiler::timed(torch_, "step", device_end->at - step.step(), device_end->at);
    step.activity = torch_.engine().activity(rank_) - before;
    step.collectives = collectives_since(step.began);
    return step;
  }

 private:
  // Scopes, by which a profile tells the phases of a step.
  Tensor forward(const RankModel& model, const Tensor& x) const {
    const profiler::record_function scope(torch_, "forward");
    return model.forward(x);
  }
  void backward(RankStep& step, const Tensor& gradient) const {
    const profiler::record_function scope(torch_, "backward");
    step.y.backward(gradient);
    tp::allreduce_sequence_parallel_gradients(torch_, step.parameters);
  }

  // Records an event, since what is launched may end after the call that launches it.
  ahbm::Event timed_event() const {
    const ahbm::Event event = torch_.ahbm.Event({.enable_timing = true});
    event.record();
    return event;
  }
  static Time elapsed(const ahbm::Event& begin, const ahbm::Event& end) {
    return Time{std::llround(begin.elapsed_time(end) * 1e9)};
  }
  Tensor tokens(const std::string& name) const {
    const Part part = part_of_tokens(input_, rank_, world_size_);
    return torch_.empty({part.rows, part.columns},
                        {.dtype = input_.dtype,
                         .dp = tp::policy_over_pes(Shard::replicate, input_.pes, 1),
                         .name = name});
  }

  void load(RankStep& step, Tensor gradient) const {
    const Part own = part_of_tokens(input_, rank_, world_size_);
    step.x.copy_(copy_elements(values_->x, own, step.x.shape()));
    gradient.copy_(copy_elements(values_->gradient, own, gradient.shape()));
    KB_CHECK(step.parameters.size() == values_->parameters.size(), "{} parameters, not {}",
             step.parameters.size(), values_->parameters.size());
    for (std::size_t i = 0; i < step.parameters.size(); ++i) {
      const DenseMatrix& whole = values_->parameters[i];
      tp::Parameter& parameter = step.parameters[i];
      parameter.copy_(
          copy_elements(whole, find_part(parameter, whole.rows, whole.columns, rank_, world_size_),
                        parameter.shape()));
    }
  }

  std::vector<runtime::FlightEvent> collectives_since(Time began) const {
    const std::vector<runtime::FlightEvent> all =
        simulation_of(torch_).flight_recorder().events(rank_);
    std::vector<runtime::FlightEvent> own;
    for (const runtime::FlightEvent& event : all) {
      if (event.has_tensor && event.issued >= began) own.push_back(event);
    }
    KB_CHECK(own.size() < runtime::FlightRecorder::kCapacity, "a step of {} collectives or more",
             own.size());
    return own;
  }

  RuntimeContext& torch_;
  const StepInput& input_;
  const DenseModel* values_;
  const int rank_;
  const int world_size_;
};

}  // namespace

std::vector<RankStep> run_training_step(RuntimeContext& torch, const StepInput& input,
                                        const BuildModel& build, const DenseModel* values) {
  torch.distributed.init_process_group("ahbm");
  const int world_size = torch.distributed.get_world_size();
  tp::initialize_model_parallel(torch, {.tensor_model_parallel_size = world_size});
  return run_on_devices(torch, world_size, [&](int rank) {
    return RankOfStep(torch, input, values, rank).run(build);
  });
}

Part find_part(const tp::Parameter& parameter, std::int64_t rows, std::int64_t columns, int rank,
               int world_size) {
  Part part{0, rows, 0, columns};
  if (!parameter.attributes || !parameter.attributes->tensor_model_parallel) return part;
  KB_CHECK(parameter.attributes->partition_stride == 1, "'{}' has a stride of {}", parameter.name(),
           parameter.attributes->partition_stride);
  const bool cuts_rows = parameter.shape().rank() > 1 && parameter.attributes->partition_dim == 0;
  if (cuts_rows) {
    part.rows = rows / world_size;
    part.row = part.rows * rank;
  } else {
    part.columns = columns / world_size;
    part.column = part.columns * rank;
  }
  return part;
}

Part part_of_tokens(const StepInput& input, int rank, int world_size) {
  if (!input.sequence_parallel) return {0, input.tokens, 0, input.hidden};
  const std::int64_t own = input.tokens / world_size;
  return {own * rank, own, 0, input.hidden};
}

}  // namespace kernbench::benches::tensor_parallel
