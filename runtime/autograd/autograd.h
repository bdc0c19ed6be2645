// What an operator records so that gradients can flow back through it (ADR-0130): define-by-run, as
// torch.autograd.  tp's mappings and layers are written with it, as torch.autograd.Function is.
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
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::autograd {

// From the gradient of an operator's result to those of its inputs, one for each; undefined where
// none flows.  Runs on the fiber that calls Tensor::backward(), and records nothing itself.  It
// keeps tensors as SavedTensor, and must not write into `grad_output`, which others may have: into
// writable(grad_output).
using Backward = std::function<std::vector<Tensor>(const Tensor& grad_output)>;

// `output`, which now needs a gradient: `backward` will tell those of `inputs`, of which some may
// be undefined or need none.  Returns `output` as it is if gradients are disabled or no input needs
// one.  What already belongs to a graph, and an operator's own input, is left as it is and a view
// of it returned.  Throws DeviceError KB-M001, KB-M019 for an output that is not on a device.
Tensor record(std::string_view name, Tensor output, const std::vector<Tensor>& inputs,
              Backward backward);

// Which elements of a tensor an operator's result is: those from `start` on along a dimension.
struct Part {
  std::size_t dimension = 0;
  std::int64_t start = 0;
};

// record() for an operator whose result has the elements of a part of its input, as narrow().  The
// gradients of several parts of a tensor are put together by one kernel when all are there, as cat
// does, and are 0 elsewhere.  Throws DeviceError KB-F001, KB-F002, KB-F003 if the output's shape,
// type or placement is not that of the part.
Tensor record_part(std::string_view name, Tensor output, const Tensor& input, const Part& part);

// record() for an operator whose result is a view of its input.  `of` makes the same view of a
// tensor that lies as the input does, in its memory and without recording; `gradient` is the
// Backward's.  Both refer to no tensor.
Tensor record_view(std::string_view name, Tensor output, const Tensor& input,
                   std::function<Tensor(const Tensor& input)> of,
                   std::function<Tensor(const Tensor& grad_output)> gradient);

// Whether a gradient of any of these may be asked for: gradients are enabled, and it requires one.
// What is undefined requires none.
bool needs_grad(const Tensor& tensor);
template <class... Tensors>
bool needs_grad(const Tensor& tensor, const Tensors&... others) {
  return needs_grad(tensor) || needs_grad(others...);
}

// A tensor that a Backward needs: an input or the output.  Nothing that was recorded is kept alive
// by it.  An undefined one stands for what is not needed.
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

// Whether other handles refer to its elements.
bool is_shared(const Tensor& tensor);
// A tensor of these elements that nobody else refers to: `tensor` itself if so, else a copy.
Tensor writable(const Tensor& tensor);

}  // namespace kernbench::autograd
