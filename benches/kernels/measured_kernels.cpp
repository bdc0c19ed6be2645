#include "benches/kernels/measured_kernels.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/flat_buffer.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "sim_engine/components/routing.h"

namespace kernbench::benches::kernels {

namespace {

namespace F = nn::functional;
using Passes = std::vector<Pass>;

constexpr std::int64_t kHeadSize = 128;
constexpr std::int64_t kParameters = 8;  // that optimizers and buckets are given

Tensor make(RuntimeContext& torch, const KernelInput& input, const Shape& shape, DType dtype) {
  return torch.empty(shape, {.dtype = dtype, .dp = input.on.tokens()});
}
Tensor operand(RuntimeContext& torch, const KernelInput& input) {
  return make(torch, input, input.shape(), input.dtype).requires_grad_();
}
Tensor vector_of_columns(RuntimeContext& torch, const KernelInput& input) {
  return torch.ones({input.columns}, {.dtype = input.dtype, .dp = input.on.weights()})
      .requires_grad_();
}

// y = function(x), and its gradient, which moves so many times x's bytes.
Passes with_gradient(RuntimeContext& torch, const KernelInput& input,
                     const std::function<Tensor(const Tensor&)>& function, double forward,
                     double backward) {
  const Tensor x = operand(torch, input);
  const Tensor dy = make(torch, input, input.shape(), input.dtype);
  const auto y = std::make_shared<Tensor>();
  const auto size = static_cast<double>(input.bytes());
  return {{"forward", [=] { *y = function(x); }, {forward * size}},
          {"backward", [=] { std::exchange(*y, {}).backward(dy); }, {backward * size}}};
}

Passes layer_norm(RuntimeContext& torch, const KernelInput& input) {
  const Tensor weight = vector_of_columns(torch, input);
  const Tensor bias = vector_of_columns(torch, input);
  return with_gradient(
      torch, input, [=](const Tensor& x) { return F::layer_norm(x, {x.shape()[1]}, weight, bias); },
      2, 3);
}

Passes rms_norm(RuntimeContext& torch, const KernelInput& input) {
  const Tensor weight = vector_of_columns(torch, input);
  return with_gradient(
      torch, input, [=](const Tensor& x) { return F::rms_norm(x, {x.shape()[1]}, weight); }, 2, 3);
}

Passes softmax(RuntimeContext& torch, const KernelInput& input) {
  return with_gradient(
      torch, input, [](const Tensor& x) { return F::softmax(x); }, 2, 3);
}

Passes gelu(RuntimeContext& torch, const KernelInput& input) {
  return with_gradient(
      torch, input, [](const Tensor& x) { return F::gelu(x); }, 2, 3);
}

Passes silu(RuntimeContext& torch, const KernelInput& input) {
  return with_gradient(
      torch, input, [](const Tensor& x) { return F::silu(x); }, 2, 3);
}

// The mask has the operand's type, and is loaded in both passes (ADR-0208).
Passes dropout(RuntimeContext& torch, const KernelInput& input) {
  return with_gradient(
      torch, input, [](const Tensor& x) { return F::dropout(x, 0.1); }, 3, 3);
}

Tensor make_ids(RuntimeContext& torch, const KernelInput& input) {
  return torch.zeros({input.rows}, {.dp = input.on.tokens()});
}

Passes cross_entropy(RuntimeContext& torch, const KernelInput& input) {
  const Tensor logits = operand(torch, input);
  const Tensor targets = make_ids(torch, input);
  const auto loss = std::make_shared<Tensor>();
  const auto size = static_cast<double>(input.bytes());
  return {{"forward", [=] { *loss = F::cross_entropy(logits, targets); }, {size}},
          {"backward", [=] { std::exchange(*loss, {}).backward(); }, {2 * size}}};
}

// The table has as many rows as there are tokens.
Passes embedding(RuntimeContext& torch, const KernelInput& input) {
  const Tensor table =
      torch.empty(input.shape(), {.dtype = input.dtype, .dp = input.on.weights()}).requires_grad_();
  const Tensor ids = make_ids(torch, input);
  const Tensor dy = make(torch, input, input.shape(), input.dtype);
  const auto y = std::make_shared<Tensor>();
  const auto size = static_cast<double>(input.bytes());
  return {{"forward", [=] { *y = F::embedding(ids, table); }, {2 * size}},
          {"backward", [=] { std::exchange(*y, {}).backward(dy); }, {2 * size}}};
}

// Causal, of one sequence: half of the scores.  The backward pass multiplies five times for the
// forward pass's two.
Passes attention(RuntimeContext& torch, const KernelInput& input) {
  const std::int64_t heads = std::max<std::int64_t>(input.columns / kHeadSize, 1);
  const Shape shape{input.rows, heads, input.columns / heads};
  std::vector<Tensor> qkv;
  for (int i = 0; i < 3; ++i) {
    qkv.push_back(make(torch, input, shape, input.dtype).requires_grad_());
  }
  const Tensor dy = make(torch, input, shape, input.dtype);
  const Tensor ends = RuntimeContext::tensor({0.0F, static_cast<float>(input.rows)}, {2});
  const auto y = std::make_shared<Tensor>();
  const auto size = static_cast<double>(input.bytes());
  const auto product = static_cast<double>(input.rows) * static_cast<double>(input.elements());
  const auto forward = [=, rows = input.rows] {
    *y = nn::attention::varlen_attn(qkv[0], qkv[1], qkv[2], ends, ends, rows, rows,
                                    {.is_causal = true});
  };
  return {{"forward", forward, {4 * size, 2 * product}},
          {"backward", [=] { std::exchange(*y, {}).backward(dy); }, {8 * size, 5 * product}}};
}

// Several tensors that together have the input's size.
std::vector<Tensor> make_parameters(RuntimeContext& torch, const KernelInput& input, DType dtype) {
  const Bytes row = input.columns * size_of(dtype);
  const std::int64_t rows = std::max<std::int64_t>(input.bytes() / row / kParameters, 1);
  std::vector<Tensor> all;
  for (std::int64_t i = 0; i < kParameters; ++i) {
    all.push_back(torch.empty({rows, input.columns}, {.dtype = dtype, .dp = input.on.weights()})
                      .requires_grad_());
    all.back().mutable_grad() = torch.empty_like(all.back().detach());
  }
  return all;
}

double bytes_of(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<double>(nn::parallel::bytes_of(tensor));
  return bytes;
}

// The second step: the first one makes the states.
template <class Optimizer>
Passes optimizer_step(const std::vector<Tensor>& parameters, std::shared_ptr<Optimizer> optimizer,
                      double moved) {
  optimizer->step();
  return {{"step", [=] { optimizer->step(); }, {moved * bytes_of(parameters)}}};
}

// Parameters and both moments are read and written, gradients read, all in f32.
Passes adamw(RuntimeContext& torch, const KernelInput& input) {
  const auto parameters = make_parameters(torch, input, DType::f32);
  return optimizer_step(parameters, std::make_shared<optim::AdamW>(parameters), 7);
}

Passes sgd(RuntimeContext& torch, const KernelInput& input) {
  const auto parameters = make_parameters(torch, input, DType::f32);
  return optimizer_step(
      parameters, std::make_shared<optim::SGD>(parameters, optim::SGDOptions(0.1).momentum(0.9)),
      5);
}

// The norm reads the gradients; their scaling reads and writes them.
Passes clip_grad_norm(RuntimeContext& torch, const KernelInput& input) {
  const auto parameters = make_parameters(torch, input, input.dtype);
  return {
      {"step", [=] { nn::utils::clip_grad_norm_(parameters, 1.0); }, {3 * bytes_of(parameters)}}};
}

Passes bucket(RuntimeContext& torch, const KernelInput& input) {
  const auto parameters = make_parameters(torch, input, input.dtype);
  const auto buffer = std::make_shared<nn::parallel::FlatBuffer>(parameters, input.dtype);
  const double size = bytes_of(parameters);
  return {{"pack", [=] { buffer->pack(parameters); }, {2 * size}},
          {"unpack", [=] { buffer->unpack(parameters); }, {2 * size}}};
}

// The time of one kernel, from its first PE's start to its last one's end.
Time time_kernel(RuntimeContext& torch, std::string_view pass,
                 std::span<const runtime::KernelResult> results) {
  const Time start = std::ranges::min(results, {}, &runtime::KernelResult::start).start;
  const Time end = std::ranges::max(results, {}, &runtime::KernelResult::end).end;
  profiler::timed(torch, pass, start, end);
  return end - start;
}

// Picoseconds for so much at so much a second, rounded down; 0 if that is unlimited.
template <class Unit>
Time bound(double count, Rate<Unit> rate, double units) {
  if (rate.is_unlimited()) return Time{0};
  const double per_second = static_cast<double>(rate.per_second) * units;
  return Time{static_cast<std::int64_t>(count / per_second * kPicosecondsPerSecond)};
}

void add_bounds(MeasuredPass& measured, const LeastWork& least, const Topology& topology,
                const train::UsedPes& on) {
  const int slices = on.cubes * sim::Routing::count_hbm_slices(topology, on.pes);
  measured.memory_bound = bound(least.bytes, sim::Routing::hbm_slice(topology).bandwidth, slices);
  const GemmSpec& array = topology.pe.gemm;
  measured.compute_bound =
      bound(least.flops, array.clock, 2.0 * array.rows * array.columns * on.count());
}

}  // namespace

const std::vector<KernelCase>& kernel_cases() {
  static const std::vector<KernelCase> all = {{"layer_norm", layer_norm},
                                              {"rms_norm", rms_norm},
                                              {"softmax", softmax},
                                              {"gelu", gelu},
                                              {"silu", silu},
                                              {"dropout", dropout},
                                              {"cross_entropy", cross_entropy},
                                              {"embedding", embedding},
                                              {"attention", attention},
                                              {"adamw", adamw},
                                              {"sgd", sgd},
                                              {"clip_grad_norm", clip_grad_norm},
                                              {"bucket", bucket}};
  return all;
}

MeasuredPass measure(RuntimeContext& torch, const Pass& pass, const KernelInput& input) {
  runtime::Simulation& simulation = simulation_of(torch);
  torch.ahbm.synchronize();
  const std::uint64_t before = simulation.next_operation();
  pass.run();
  torch.ahbm.synchronize();
  std::map<std::uint64_t, std::vector<runtime::KernelResult>> by_kernel;
  for (const runtime::KernelResult& result : simulation.results()) {
    if (result.operation > before) by_kernel[result.operation].push_back(result);
  }
  MeasuredPass measured{.kernels = std::ssize(by_kernel)};
  add_bounds(measured, pass.least, torch.topology(), input.on);
  for (const auto& [operation, results] : by_kernel) {
    measured.time += time_kernel(torch, pass.name, results);
    for (const runtime::KernelResult& result : results) {
      measured.hbm_bytes += result.loaded + result.stored;
    }
  }
  return measured;
}

}  // namespace kernbench::benches::kernels
