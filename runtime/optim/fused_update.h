// Updates many parameters with one kernel.

#pragma once

#include <array>
#include <string_view>
#include <vector>

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

// Applies the function to all elements of all parameters, in f32 with one rounding: one kernel for
// those of a type and of the same holders.  Records nothing.  Throws DeviceError KB-F003 for a
// gradient that lies otherwise than its parameter.
void update(std::string_view name, std::vector<Update> updates, UpdateFunction function);

}  // namespace kernbench::optim
