// Views of tensors whose elements may be written.

#pragma once

#include "runtime/autograd/node.h"

namespace kernbench::autograd {

// Returns the base of a view, if it still exists; undefined for a tensor that is no view.
Tensor find_base(const Tensor::Storage& storage);

// Gives a view its base's present history, if that has changed since the view was last used.
void follow_base(Tensor::Storage& storage);

// Records that `output` is a view of `input`, or of input's base if that is a view itself.
void note_view(const Tensor& output, const Tensor& input, std::string_view name,
               std::function<Tensor(const Tensor& input)> of,
               std::function<Tensor(const Tensor& grad_output)> gradient);

// Returns zeros on the device of `like`, placed as a gradient of a tensor of this form.
Tensor zero_gradient(const Tensor::Storage& like, const GradientForm& form);

// Returns the same elements with the placement of a gradient of this form: `gradient` itself if it
// has that already.
Tensor gradient_in_form(const Tensor& gradient, const GradientForm& form);

}  // namespace kernbench::autograd
