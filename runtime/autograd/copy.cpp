// copy_ as an operator: what it records, and what it refuses (ADR-0162).

#include <fmt/format.h>

#include <utility>

#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/view.h"
#include "runtime/ops/elements.h"
#include "runtime/tensor/host_copy.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

using autograd::edge_to;
using autograd::Meta;

// Selects the part of a tensor that is written; empty: all of it.
using Slice = std::function<Tensor(const Tensor&)>;

// Returns the tensor whose history changes when `tensor` is written: its base, if it is a view.
Tensor written_through(const Tensor& tensor) {
  const Tensor base = autograd::base_of(*tensor.storage());
  return base.defined() ? base : tensor;
}

bool is_leaf_with_gradient(const Tensor& tensor) {
  return tensor.requires_grad() && tensor.is_leaf();
}

// True if writing `source` into the tensor changes its history.
bool is_recorded(const Tensor& target, const Tensor& source) {
  if (target.is_host() || !is_grad_enabled(*target.storage()->simulation)) return false;
  const bool is_loaded = source.is_host() && is_leaf_with_gradient(written_through(target));
  return !is_loaded && (target.requires_grad() || source.requires_grad());
}

void refuse_leaf(const Tensor& target, std::string_view what) {
  throw CollectiveError(
      "KB-A008",
      fmt::format(
          "{} that requires grad is being used in an in-place operation.: copy_ into tensor "
          "'{}' {}; copy_ while a NoGradGuard lives, or into its detach(); elements come "
          "from a host tensor without either",
          what, target.name(), to_string(target.shape())));
}

// Refuses with PyTorch's texts, and checks in PyTorch's order.
void check_in_place(const Tensor& target) {
  const auto& view = target.storage()->view;
  if (view != nullptr && !view->has_gradients()) {
    throw CollectiveError(
        "KB-A009",
        fmt::format("A view was created in no_grad mode and is being modified inplace with grad "
                    "mode enabled. Given that this use case is ambiguous and error-prone, it is "
                    "forbidden. You can clarify your code by moving both the view and the inplace "
                    "either both inside the no_grad block (if you don't want the inplace to be "
                    "tracked) or both outside (if you want the inplace to be tracked).: copy_ into "
                    "tensor '{}' {}",
                    target.name(), to_string(target.shape())));
  }
  if (is_leaf_with_gradient(target)) refuse_leaf(target, "a leaf Variable");
  if (is_leaf_with_gradient(written_through(target))) {
    refuse_leaf(target, "a view of a leaf Variable");
  }
}

// Returns the gradient of the old elements: dy, but 0 where they were overwritten.
Tensor gradient_of_old(const Tensor& dy, const Slice& slice) {
  if (slice == nullptr) {
    return autograd::zero_gradient(*dy.storage(), autograd::gradient_form_of(dy));
  }
  const Tensor rest = ops::copy_of(dy);
  const Tensor written = slice(rest);
  runtime::copy_elements(
      written,
      Tensor(runtime::make_host_storage(
          written.shape(), std::vector<float>(static_cast<std::size_t>(written.numel()), 0.0F))));
  return rest;
}

void record_copy(const Tensor& target, const Tensor& source) {
  const Tensor written = written_through(target);
  const std::shared_ptr<autograd::View> view =
      written.storage() == target.storage() ? nullptr : target.storage()->view;
  Tensor::Storage& storage = *written.storage();
  auto node =
      autograd::NodeList::of(*storage.simulation).make(view == nullptr ? "copy_" : "CopySlices");
  node->edges = {edge_to(written), edge_to(source)};
  node->backward =
      [slice = view == nullptr ? Slice() : view->of, of_old = node->edges[0].wants_gradient(),
       of_source = node->edges[1].wants_gradient(), form = node->edges[1].form](const Tensor& dy) {
        const auto of_written = [&] {
          return autograd::gradient_in_form(slice == nullptr ? dy : slice(dy), form);
        };
        return std::vector{of_old ? gradient_of_old(dy, slice) : Tensor(),
                           of_source ? of_written() : Tensor()};
      };
  const Tensor grad = storage.autograd == nullptr ? Tensor() : storage.autograd->grad;
  storage.autograd = std::make_shared<Meta>(Meta{true, grad, std::move(node)});
}

}  // namespace

Tensor& Tensor::copy_(const Tensor& source, Location location) {
  checked();
  source.checked();
  if (source.shape() != shape()) {
    throw DeviceError("KB-M015",
                      fmt::format("copy_: '{}' is {}, '{}' is {}; they must agree", source.name(),
                                  to_string(source.shape()), name(), to_string(shape())));
  }
  const bool is_recorded = kernbench::is_recorded(*this, source);
  if (is_recorded) check_in_place(*this);
  runtime::copy_elements(*this, source, location);
  if (is_recorded) record_copy(*this, source);
  return *this;
}

Tensor& Tensor::copy_shard_(std::size_t index, const Tensor& source, Location location) {
  checked();
  source.checked();
  if (!is_host() && is_recorded(*this, source)) {
    throw CollectiveError(
        "KB-A008",
        fmt::format("copy_shard_ into tensor '{}' {} is not recorded, and a gradient would have to "
                    "flow through it; call it while a NoGradGuard lives, or on detach()",
                    name(), to_string(shape())));
  }
  runtime::copy_elements_of_shard(*this, index, source, location);
  return *this;
}

}  // namespace kernbench
