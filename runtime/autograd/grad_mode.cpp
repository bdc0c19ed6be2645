#include "runtime/autograd/autograd.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench {

namespace {

runtime::Simulation& checked_simulation(const Tensor& tensor) {
  runtime::check_on_device(tensor, "NoGradGuard");
  return *tensor.storage()->simulation;
}

}  // namespace

NoGradGuard::NoGradGuard(RuntimeContext& torch) : NoGradGuard(simulation_of(torch)) {}

NoGradGuard::NoGradGuard(const Tensor& of) : NoGradGuard(checked_simulation(of)) {}

NoGradGuard::NoGradGuard(runtime::Simulation& simulation)
    : local_(simulation.local()), was_enabled_(local_.is_grad_enabled) {
  local_.is_grad_enabled = false;
}

NoGradGuard::~NoGradGuard() {
  local_.is_grad_enabled = was_enabled_;
}

EnableGradGuard::EnableGradGuard(runtime::Simulation& simulation)
    : local_(simulation.local()), was_enabled_(local_.is_grad_enabled) {
  local_.is_grad_enabled = true;
}

EnableGradGuard::~EnableGradGuard() {
  local_.is_grad_enabled = was_enabled_;
}

bool is_grad_enabled(runtime::Simulation& simulation) {
  return simulation.local().is_grad_enabled;
}

}  // namespace kernbench
