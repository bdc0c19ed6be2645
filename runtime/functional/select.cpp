// Tensor::operator[]: a row as a view, and its gradient.

#include "runtime/autograd/view.h"
#include "runtime/functional/views.h"
#include "runtime/ops/pieces.h"
#include "runtime/tensor/host_copy.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

std::int64_t checked_index(const Tensor& x, std::int64_t index) {
  if (x.shape().rank() == 0) {
    throw DeviceError("KB-M017",
                      "invalid index of a 0-dim tensor: '{}' is [], use item() to read its element",
                      x.name());
  }
  const std::int64_t size = x.shape()[0];
  if (index < -size || index >= size) {
    throw DeviceError("KB-M017",
                      "index {} is out of bounds for dimension 0 with size {}: tensor '{}' is {}",
                      index, size, x.name(), to_string(x.shape()));
  }
  return index < 0 ? index + size : index;
}

// Returns a gradient that is `dy` in the row and 0 elsewhere.  One kernel makes it; if holders
// would have to exchange elements, the host copies them.
Tensor gradient_of_whole(const Tensor& dy, std::int64_t row, const autograd::GradientForm& form) {
  const bool is_cut = form.placement.cube == ops::cut(0) || form.placement.pe == ops::cut(0);
  if (!is_cut && !runtime::lies_apart(*dy.storage())) {
    const DPPolicy dp = ops::to_policy(form.placement, form.shape.rank()).value_or(dy.dp());
    const Tensor piece = ops::viewed(dy, ops::with_size(form.shape, 0, 1), dp);
    return ops::assembled("select_backward", form.shape, 0, {{piece, row}});
  }
  Tensor whole = autograd::zero_gradient(*dy.storage(), form);
  runtime::copy_elements(runtime::make_row_view(whole, row), dy);
  return whole;
}

}  // namespace

Tensor Tensor::operator[](std::int64_t index) const {
  const std::int64_t row = checked_index(*this, index);
  if (!is_host() && runtime::is_strided(*this)) {
    return narrow(0, row, 1).squeeze(0);
  }
  const Tensor view = runtime::make_row_view(*this, row);
  if (is_host()) return view;
  return autograd::record_view(
      "select", view, *this, [row](const Tensor& x) { return runtime::make_row_view(x, row); },
      [row, form = autograd::make_gradient_form(*this)](const Tensor& dy) {
        return gradient_of_whole(dy, row, form);
      });
}

}  // namespace kernbench
