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
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

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

}  // namespace kernbench::autograd
