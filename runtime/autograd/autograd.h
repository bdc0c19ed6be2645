// The functions with which an operator records how gradients flow back through it (ADR-0130):
// define-by-run, as torch.autograd.  The mappings and layers of tp use it as
// torch.autograd.Function is used.
//
//   Tensor scale(RuntimeContext& torch, const Tensor& x, double by) {
//     const auto forward = [&] {
//       const NoGradGuard no_grad(torch);
//       return x * by;
//     };
//     return autograd::record("scale", forward(), {x},
//                             [by](const Tensor& dy) { return std::vector{dy * by}; });
//   }

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "sim_engine/base/function.h"

namespace kernbench {

class RuntimeContext;

namespace runtime {
class Simulation;
struct FiberLocal;
}  // namespace runtime

// While it lives, the operators of the rank that made it record nothing, and their results need no
// gradient (torch::NoGradGuard).  The rank that made it must destroy it.
class NoGradGuard {
 public:
  explicit NoGradGuard(RuntimeContext& torch);
  explicit NoGradGuard(const Tensor& of);  // for the tensor's context
  explicit NoGradGuard(runtime::Simulation& simulation);
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  runtime::FiberLocal& local_;
  const bool was_enabled_;
};

// The same as NoGradGuard.  It stands for c10::InferenceMode, whose tensors may not be used in a
// graph later; these may.
class InferenceMode : public NoGradGuard {
 public:
  using NoGradGuard::NoGradGuard;
};

// While it lives, they are recorded again (torch.enable_grad).
class EnableGradGuard {
 public:
  explicit EnableGradGuard(runtime::Simulation& simulation);
  ~EnableGradGuard();
  EnableGradGuard(const EnableGradGuard&) = delete;
  EnableGradGuard& operator=(const EnableGradGuard&) = delete;

 private:
  runtime::FiberLocal& local_;
  const bool was_enabled_;
};

// True if the caller's operators are recorded (torch.is_grad_enabled).
bool is_grad_enabled(runtime::Simulation& simulation);

}  // namespace kernbench

namespace kernbench::autograd {

// Computes the gradients of an operator's inputs from that of its result, one for each input;
// undefined where no gradient flows.  It runs on the fiber that calls Tensor::backward(), and
// records nothing itself.  It keeps tensors as SavedTensor.  It must not write into `grad_output`,
// which others may share, but into writable(grad_output).
using Backward = std::function<std::vector<Tensor>(const Tensor& grad_output)>;

// Returns `output`, which now needs a gradient: `backward` will compute those of `inputs`, some of
// which may be undefined or need none.  Returns `output` unchanged if gradients are disabled, no
// input needs one, or it is of integers.  If `output` already belongs to a graph, or is one of the
// inputs, it stays unchanged and a view of it is returned.  Throws DeviceError KB-M001, KB-M019 if
// the output is not on a device.
Tensor record(std::string_view name, Tensor output, const std::vector<Tensor>& inputs,
              Backward backward);

// The elements of a tensor that form an operator's result: those from `start` on along a
// dimension.
struct Part {
  std::size_t dimension = 0;
  std::int64_t start = 0;
};

// As record(), for an operator whose result has the elements of a part of its input, such as
// narrow().  The gradients of several parts of a tensor are assembled by one kernel, as cat does,
// once all are known, and are 0 elsewhere.  If the output is a view of the input, `of` makes it as
// for record_view().  Throws DeviceError KB-F001, KB-F002, KB-F003 if the output's shape, type or
// placement is not that of the part.
Tensor record_part(std::string_view name, Tensor output, const Tensor& input, const Part& part,
                   std::function<Tensor(const Tensor& input)> of = {});

// As record(), for an operator whose result is a view of its input.  `of` makes the same view of a
// tensor placed as the input, in its memory and without recording; `gradient` is the Backward's.
// Neither may refer to a tensor.
Tensor record_view(std::string_view name, Tensor output, const Tensor& input,
                   std::function<Tensor(const Tensor& input)> of,
                   std::function<Tensor(const Tensor& grad_output)> gradient);

// True if a gradient of any of these may be asked for: gradients are enabled, and one of them
// requires one.  Undefined tensors require none.
bool needs_grad(const Tensor& tensor);
template <class... Tensors>
bool needs_grad(const Tensor& tensor, const Tensors&... others) {
  return needs_grad(tensor) || needs_grad(others...);
}

// A tensor that a Backward needs: an input or the output.  It keeps no recorded operator alive.
// An undefined one stands for a tensor that is not needed.
class SavedTensor {
 public:
  SavedTensor() = default;
  // Throws DeviceError KB-M019 for a host tensor.
  explicit SavedTensor(const Tensor& tensor);

  // Throws CollectiveError KB-A005 if elements were written since it was saved.
  const Tensor& get() const;

 private:
  Tensor tensor_;
  std::uint64_t version_ = 0;
};

// True if other handles refer to its elements.
bool is_shared(const Tensor& tensor);
// Returns a tensor with these elements that no other handle refers to: `tensor` itself if there is
// none, else a copy.
Tensor writable(const Tensor& tensor);

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;  // derivatives of derivatives are not recorded: KB-A025
  bool allow_unused = false;  // an input that no gradient reaches gets an undefined one
};

// Returns the sums of the gradients of the outputs with respect to each input, as backward() would
// add them to grad(), which stays as it is.  An input may be a leaf or computed.  Without
// `grad_outputs`, or where one is undefined, an output must have one element.  Only what leads to
// an input is computed.
// Throws CollectiveError as backward() does, KB-A001 for an input that requires no gradient,
// KB-A026 for one that no gradient reaches, in torch's words.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {},
                         const GradOptions& options = {});

}  // namespace kernbench::autograd

namespace kernbench::nn::utils {

// Calls function(inputs) and keeps the inputs alone: what lies between is computed again when the
// gradient comes by (torch.utils.checkpoint, reentrant).  Random numbers are the same the
// second time.  As in torch, gradients flow only if one of the inputs requires one.
//   const Tensor y = checkpoint([&](const auto& in) { return block(in[0]); }, {x});
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
                  const std::vector<Tensor>& inputs);

}  // namespace kernbench::nn::utils
