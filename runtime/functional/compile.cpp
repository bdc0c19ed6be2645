#include "runtime/functional/compile.h"

#include <algorithm>

#include "runtime/ops/fusion.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::compiled {

struct Call::State {
  explicit State(runtime::Simulation& simulation)
      : is_inside(simulation.local().deferral != nullptr),
        scope(simulation, is_inside ? simulation.local().deferral : &fusion) {}

  const bool is_inside;  // of another compiled call
  ops::Fusion fusion;
  const ops::FusionScope scope;
};

void collect(Tensors& all, const Tensor& tensor) {
  all.push_back(tensor);
}

Call::Call(const Tensors& arguments) {
  const auto on_device = std::ranges::find_if(
      arguments, [](const Tensor& argument) { return argument.defined() && !argument.is_host(); });
  if (on_device == arguments.end()) return;
  state_ = std::make_unique<State>(*on_device->storage()->simulation);
}

Call::~Call() = default;

void Call::end(const Tensors& results) const {
  if (state_ && !state_->is_inside) ops::compute(results);
}

}  // namespace kernbench::compiled
