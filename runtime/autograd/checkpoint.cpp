
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/random/generator.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::utils {

namespace {

using autograd::SavedTensor;
using Function = std::function<Tensor(const std::vector<Tensor>& inputs)>;

random::Generator& generator_of(const Tensor& tensor) {
  return random::Generator::of(*tensor.storage()->simulation, tensor.device());
}

// While it lives, the tensor's device draws the numbers that `state` draws; later it goes on.
class RestoredGenerator {
 public:
  RestoredGenerator(const Tensor& tensor, const random::Generator& state)
      : generator_(generator_of(tensor)), present_(std::exchange(generator_, state)) {}
  ~RestoredGenerator() { generator_ = present_; }
  RestoredGenerator(const RestoredGenerator&) = delete;
  RestoredGenerator& operator=(const RestoredGenerator&) = delete;

 private:
  random::Generator& generator_;
  const random::Generator present_;
};

struct SavedInput {
  SavedTensor tensor;
  bool requires_grad = false;
};

// Computes the function again, recorded, and the gradients of its inputs.
std::vector<Tensor> differentiate(const Function& function, const std::vector<SavedInput>& saved,
                                  const random::Generator& state, const Tensor& dy) {
  const EnableGradGuard grad(*dy.storage()->simulation);
  std::vector<Tensor> inputs;
  for (const SavedInput& input : saved) {
    inputs.push_back(input.tensor.get());
    if (!inputs.back().defined()) continue;
    inputs.back() = inputs.back().detach();
    if (input.requires_grad) inputs.back().requires_grad_();
  }
  Tensor y;
  {
    const RestoredGenerator restored(dy, state);
    y = function(inputs);
  }
  y.backward(dy);
  std::vector<Tensor> gradients;
  for (const Tensor& input : inputs) {
    gradients.push_back(input.defined() ? input.grad() : Tensor());
  }
  return gradients;
}

// The function's parameters are no inputs of the operator: they get their gradients whatever is
// asked for.
void check_are_all(const autograd::AskedInputs& asked) {
  if (asked.are_all()) return;
  throw CollectiveError(
      "KB-A031",
      "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an "
      "`inputs` parameter to .backward(), and so with a pipeline schedule that runs backward in "
      "two "
      "halves (I and W): take one with whole backwards (B)");
}

}  // namespace

Tensor checkpoint(const Function& function, const std::vector<Tensor>& inputs) {
  runtime::check_on_device(inputs.empty() ? Tensor() : inputs.front(), "checkpoint");
  const random::Generator state = generator_of(inputs.front());
  Tensor y;
  {
    const NoGradGuard no_grad(*inputs.front().storage()->simulation);
    y = function(inputs);
  }
  std::vector<SavedInput> saved;
  for (const Tensor& input : inputs) {
    saved.push_back({SavedTensor(input), input.defined() && input.requires_grad()});
  }
  return autograd::record("checkpoint", std::move(y), inputs,
                          [function, saved = std::move(saved), state](
                              const Tensor& dy, const autograd::AskedInputs& asked) {
                            check_are_all(asked);
                            return differentiate(function, saved, state, dy);
                          });
}

}  // namespace kernbench::nn::utils
