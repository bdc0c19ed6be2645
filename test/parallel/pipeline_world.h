// Pipelines of stages whose forward and backward take known times.

#pragma once

#include <algorithm>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/pipelining/schedules.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test {

namespace pipelining = distributed::pipelining;

// One PE a device, of one multiplier of 1 GHz; the links between devices have a latency, and
// nothing else takes time.
inline Topology timed_pipeline_machine(int ranks, Time latency) {
  Topology machine = free_topology();
  machine.system.sip_count = machine.system.w = ranks;
  machine.system.sip_link.latency = latency;
  machine.pe.gemm.rows = machine.pe.gemm.columns = 1;
  machine.pe.gemm.clock = Frequency{1'000'000'000};
  return machine;
}

// Takes as many nanoseconds as it multiplies elements.
inline void multiply_for(tl::Context& tl, const tl::Pointer& work, const tl::Pointer& result,
                         std::int64_t nanoseconds) {
  const tl::Tensor row = tl.load(work, {1, nanoseconds}, DType::f32);
  const tl::Tensor column = tl.load(work, {nanoseconds, 1}, DType::f32);
  tl.store(result, tl.dot(row, column));
}

// The layers of stage `index` of a model; weights are small whole numbers, and differ.
inline nn::Sequential whole_number_block(const RuntimeContext& torch, int index) {
  const nn::Sequential layers(nn::Linear(torch, kBatchColumns, kBatchColumns, kOnOnePe),
                              nn::ReLU());
  std::int64_t q = index;
  for (Tensor parameter : layers->parameters()) {
    Floats elements;
    for (std::int64_t j = 0; j < parameter.numel(); ++j) {
      elements.push_back(static_cast<float>((7 * j + 11 * q + 3) % 3 - 1));
    }
    parameter.detach().copy_(RuntimeContext::tensor(elements, parameter.shape()));
    ++q;
  }
  return layers;
}

// The sum of the squares of the differences, whose gradients are whole numbers.
inline Tensor squares(const Tensor& y, const Tensor& target) {
  const Tensor difference = y - target;
  return (difference * difference).sum();
}

struct StageTimes {
  std::int64_t forward = 1;   // ns
  std::int64_t backward = 1;  // ns, both halves
  std::int64_t weight = 0;    // ns, of `backward`
};

// Tensors of one element go from stage to stage.
class TimedStage {
 public:
  TimedStage(RuntimeContext& torch, const StageTimes& times)
      : torch_(torch),
        times_(times),
        work_(torch.zeros({std::max(times.forward, times.backward)}, kOnOnePe)),
        weight_(torch.zeros({1, 1}, kOnOnePe)) {
    weight_.requires_grad_();
  }

  Tensor operator()(const Tensor& x) const {
    return autograd::record("Timed", run("forward", times_.forward), {x, weight_},
                            [*this](const Tensor&, const autograd::AskedInputs& asked) {
                              std::int64_t time = 0;
                              if (asked.contains(0)) time += times_.backward - times_.weight;
                              if (asked.contains(1)) time += times_.weight;
                              const Tensor gradient = run("backward", time);
                              const Tensor none;
                              return std::vector{
                                  asked.contains(0) ? gradient : none,
                                  asked.contains(1) ? torch_.zeros({1, 1}, kOnOnePe) : none};
                            });
  }

 private:
  Tensor run(std::string_view name, std::int64_t nanoseconds) const {
    const Tensor result = torch_.empty({1, 1}, kOnOnePe);
    torch_.launch(name, multiply_for, work_, result, nanoseconds);
    return result;
  }

  RuntimeContext& torch_;
  StageTimes times_;
  Tensor work_;
  Tensor weight_;
};

}  // namespace kernbench::test
