// A kernel on one PE: what it makes of elements, how long that takes, what it is told.

#pragma once

#include <functional>
#include <string>

#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

using Elements = std::vector<float>;

// round_topology() with one lane of PE_MATH at 1 GHz: an operation takes 1 ns per element and
// cycle.  A different number of cycles for every kind.
inline Topology one_lane_topology() {
  Topology topology = round_topology();
  topology.pe.math_clock = Frequency{1'000'000'000};
  int cycles = 1;
  for (const MathKind kind : kMathKinds) topology.pe.math_cycles[kind] = cycles++;
  return topology;
}

class TlUnderTest {
 public:
  using Kernel = std::function<tl::Tensor(tl::Context&)>;
  using Body = std::function<void(tl::Context&)>;

  explicit TlUnderTest(const Topology& topology = one_lane_topology()) : torch(topology) {}

  // Something that kernels can load: of any shape with as many elements.
  tl::Pointer input(const Elements& elements, DType type = DType::f32) {
    const Shape all{static_cast<std::int64_t>(elements.size())};
    Tensor tensor = torch.empty(all, {.dtype = type, .dp = DPPolicy::on_one_pe(), .name = "in"});
    tensor.copy_(RuntimeContext::tensor(elements, all));
    inputs_.push_back(tensor);
    return RuntimeContext::pointer_to(tensor, {0, 0, 0});
  }

  void run(const Body& body) {
    const Tensor anything = torch.ones({1}, {.dp = DPPolicy::on_one_pe()});
    torch.launch(
        "k", [&](tl::Context& tl, tl::Pointer) { body(tl); }, anything);
  }

  // The elements of what a kernel returns; its shape and type are then in `shape` and `dtype`.
  Elements result(const Kernel& kernel) {
    const std::int64_t room = 4096;
    std::vector<Tensor> outputs;
    for (const DType type : kDTypes) {
      outputs.push_back(torch.zeros({room}, {.dtype = type, .dp = DPPolicy::on_one_pe()}));
    }
    const auto output = [&] { return outputs[static_cast<std::size_t>(dtype)]; };
    run([&](tl::Context& tl) {
      const tl::Tensor made = kernel(tl);
      shape = made.shape();
      dtype = made.dtype();
      tl.store(RuntimeContext::pointer_to(output(), tl.location()), made);
    });
    Elements elements = output().to_vector<float>();
    elements.resize(static_cast<std::size_t>(shape.numel()));
    return elements;
  }

  // From issuing what `body` issues to its end; `prepare` comes before.
  template <class Prepare, class Measured>
  Time time_of(const Prepare& prepare, const Measured& measured) {
    Time took{0};
    run([&](tl::Context& tl) {
      const auto prepared = prepare(tl);
      tl.drain();
      const Time begin = torch.engine().now();
      measured(tl, prepared);
      tl.drain();
      took = torch.engine().now() - begin;
    });
    return took;
  }

  std::string error(const Body& body) {
    return error_of<DeviceError>([&] { run(body); });
  }

  RuntimeContext torch;
  Shape shape;
  DType dtype = DType::f32;

 private:
  std::vector<Tensor> inputs_;
};

}  // namespace kernbench::test
