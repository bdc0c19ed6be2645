// Kernels over many tensors: one for all of a type and of the same holders, as torch's foreach and
// fused forms.  They compute in f32 with one rounding, and record nothing.

#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tl/tl.h"

namespace kernbench::optim {

using UpdateNumbers = std::array<double, 8>;

// A parameter, its gradient and the tensors that the optimizer keeps for it.
struct Update {
  Tensor parameter;
  Tensor gradient;
  std::vector<Tensor> state;
  UpdateNumbers numbers{};
};

// Blocks of one parameter, in f32.  A function changes the parameter's and the state's.
struct UpdateBlocks {
  tl::Tensor parameter;
  tl::Tensor gradient;
  std::vector<tl::Tensor> state;
};
using UpdateFunction = void (*)(tl::Context& tl, const UpdateNumbers& numbers,
                                UpdateBlocks& blocks);

// Applies the function to all elements of all parameters.  Throws DeviceError KB-F003 for a
// gradient that lies otherwise than its parameter.
void update(std::string_view name, std::vector<Update> updates, UpdateFunction function);

// A tensor that becomes function(source), which has its shape and may be the same tensor.
struct Assignment {
  Tensor target;
  Tensor source;
  double number = 0;
};
using AssignedFunction = tl::Tensor (*)(tl::Context& tl, const tl::Tensor& source, double number);

// Throws DeviceError KB-F003 for a source that lies otherwise than its target.
void assign(std::string_view name, std::vector<Assignment> assignments, AssignedFunction function);

// Returns, for each tensor, the sum of function(element) over its elements.  The host reads the
// sums, and so waits; in a context without data they are 0.  Throws DeviceError KB-F003 for a
// partial tensor.
using SummedFunction = tl::Tensor (*)(const tl::Tensor& block);
std::vector<double> sums(std::string_view name, const std::vector<Tensor>& tensors,
                         SummedFunction function);

// Adds up a number of each rank of a group: 4 bytes, on the device of `like`.  The host waits; in a
// context without data the sum is 0.
double sum_over_ranks(double number, const Tensor& like, const distributed::ProcessGroup& group);

}  // namespace kernbench::optim
