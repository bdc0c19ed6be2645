// Views of tensors whose elements are written.

#pragma once

#include "runtime/autograd/node.h"

namespace kernbench::autograd {

// The base of a view, if somebody still has it; undefined for a tensor that is no view.
Tensor base_of(const Tensor::Storage& storage);

// Gives a view the history that its base has now, if that is another one than when it was made.
void follow_base(Tensor::Storage& storage);

// Notes that `output` is a view of `input`, or of the base of that, if it is one itself.
void note_view(const Tensor& output, const Tensor& input, std::string_view name,
               std::function<Tensor(const Tensor& input)> of,
               std::function<Tensor(const Tensor& grad_output)> gradient);

// Of zeros, on the device of `like`, as a gradient of what has this form lies.
Tensor zero_gradient(const Tensor::Storage& like, const GradientForm& form);

// The same elements as a gradient of what has this form: itself, if it lies so already.
Tensor gradient_in_form(const Tensor& gradient, const GradientForm& form);

}  // namespace kernbench::autograd
