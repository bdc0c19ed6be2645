#pragma once

#include "runtime/nn/ordered_dict.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::nn {

// Tensors by their names: parameters and buffers of a module.
using StateDict = OrderedDict<Tensor>;

// Tensors and numbers by their names: the state of an optimizer, or of a whole training.
struct State {
  StateDict tensors;
  OrderedDict<double> numbers;
};

}  // namespace kernbench::nn
