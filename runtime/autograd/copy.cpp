// copy_ and other operators that write into a tensor: what they record, and what they refuse
// (ADR-0130).

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/in_place.h"
#include "runtime/autograd/view.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/fusion.h"
#include "runtime/ops/strided_copy.h"
#include "runtime/simulation/call_site.h"
#include "runtime/simulation/named_call.h"
#include "runtime/tensor/data_under_way.h"
#include "runtime/tensor/host_copy.h"
#include "runtime/tensor/host_read.h"
#include "runtime/tensor/strided_view.h"
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
  const Tensor base = autograd::find_base(*tensor.storage());
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

void refuse_leaf(std::string_view name, const Tensor& target, std::string_view what) {
  throw CollectiveError("KB-A008",
                        "{0} that requires grad is being used in an in-place operation.: {1} into "
                        "tensor '{2}' {3}; {1} while a NoGradGuard lives, or into its detach(){4}",
                        what, name, target.name(), to_string(target.shape()),
                        name == "copy_" ? "; elements come from a host tensor without either" : "");
}

// Refuses with PyTorch's texts, and checks in PyTorch's order.
void check_target(std::string_view name, const Tensor& target) {
  const auto& view = target.storage()->view;
  if (view != nullptr && !view->has_gradients()) {
    throw CollectiveError(
        "KB-A009",
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
        "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
        "your code by moving both the view and the inplace either both inside the no_grad block "
        "(if you don't want the inplace to be tracked) or both outside (if you want the inplace to "
        "be tracked).: {} into tensor '{}' {}",
        name, target.name(), to_string(target.shape()));
  }
  if (is_leaf_with_gradient(target)) refuse_leaf(name, target, "a leaf Variable");
  if (is_leaf_with_gradient(written_through(target))) {
    refuse_leaf(name, target, "a view of a leaf Variable");
  }
}

// True if every holder has the elements that it needs.
bool is_local(const Tensor& target, const Tensor& source) {
  if (target.is_host() || source.is_host()) return false;
  const Tensor::Storage& into = *target.storage();
  const Tensor::Storage& from = *source.storage();
  const auto lies_on_one_device = [](const Tensor& x) {
    return !runtime::lies_apart(*x.storage()) && x.shards().front().sip == x.shards().back().sip;
  };
  return into.simulation == from.simulation && lies_on_one_device(target) &&
         lies_on_one_device(source) && ops::placement_of(target) == ops::placement_of(source) &&
         !runtime::share_elements(into, from);
}

void copy_into_view(const Tensor& view, const Tensor& source, const Location& location) {
  if (is_local(view, source) && source.dtype() == view.dtype()) {
    return ops::write_view(view, source);
  }
  const Tensor dense =
      ops::make_like(view, "copy_", view.shape(), view.dtype(), ops::placement_of(view));
  runtime::copy_elements(dense, source, location);
  ops::write_view(view, dense);
}

// Copies by a kernel what is local, and the rest over the host link.  Either waits for operations
// under way that write the source.
void copy_elements(const Tensor& target, const Tensor& of,
                   const Location& location = Location::current()) {
  if (of.is_host() && !runtime::is_strided(target)) {
    return runtime::copy_elements(target, of, location);
  }
  if (!of.is_host() && !of.storage()->memory->accesses.empty()) {
    runtime::begin_host_read(*of.storage(), runtime::HostRead::copy_source);
  }
  const Tensor source = ops::dense(of);
  const bool is_local = kernbench::is_local(target, source);
  if (is_local || runtime::is_strided(target)) {
    runtime::check_may_touch(target, runtime::Touch::writes, [&] {
      return fmt::format("copy_ at {}", runtime::call_site(location));
    });
  }
  if (runtime::is_strided(target)) return copy_into_view(target, source, location);
  is_local ? ops::copy_into(target, source) : runtime::copy_elements(target, source, location);
}

void set_zero(const Tensor& x) {
  if (!runtime::lies_apart(*x.storage())) return ops::fill(x, 0);
  runtime::copy_elements(
      x, Tensor(runtime::make_host_storage(
             x.shape(), std::vector<float>(static_cast<std::size_t>(x.numel()), 0.0F))));
}

// Returns the gradient of the old elements: dy, but 0 where they were overwritten.
Tensor gradient_of_old(const Tensor& dy, const Slice& slice) {
  if (slice == nullptr) {
    return autograd::zero_gradient(*dy.storage(), autograd::make_gradient_form(dy));
  }
  const Tensor rest = ops::make_copy(dy);
  set_zero(slice(rest));
  return rest;
}

// Returns the node of an operator that has written into `target`, which will be the history of
// `written`: the target, or the tensor that it is a view of.
std::shared_ptr<autograd::Node> node_of_write(std::string_view name, const Tensor& target,
                                              const Tensor& written) {
  const bool is_view = written.storage() != target.storage();
  auto node =
      autograd::NodeList::of(*written.storage()->simulation).make(is_view ? "CopySlices" : name);
  node->is_fused = ops::fusion_of(written) != nullptr;
  return node;
}

void record_copy(const Tensor& target, const Tensor& source) {
  const Tensor written = written_through(target);
  const std::shared_ptr<autograd::View> view =
      written.storage() == target.storage() ? nullptr : target.storage()->view;
  auto node = node_of_write("copy_", target, written);
  node->edges = {edge_to(written), edge_to(source)};
  node->backward =
      [slice = view == nullptr ? Slice() : view->of, of_old = node->edges[0].wants_gradient(),
       of_source = node->edges[1].wants_gradient(), form = node->edges[1].form](const Tensor& dy) {
        const auto of_written = [&] {
          return autograd::gradient_in_form(slice == nullptr ? dy : ops::dense(slice(dy)), form);
        };
        return std::vector{of_old ? gradient_of_old(dy, slice) : Tensor(),
                           of_source ? of_written() : Tensor()};
      };
  autograd::set_history(written, std::move(node));
}

// The Backward of a write through a view, for the gradient of the tensor that it is a view of.
autograd::Backward through_view(Slice slice, autograd::Backward backward) {
  return [slice = std::move(slice), backward = std::move(backward)](const Tensor& dy) {
    const Tensor whole = ops::make_copy(dy);
    const Tensor part = slice(whole);
    std::vector<Tensor> gradients = backward(ops::make_copy(part));
    gradients[0].defined() ? copy_elements(part, gradients[0]) : set_zero(part);
    gradients[0] = whole;
    return gradients;
  };
}

}  // namespace

void autograd::set_history(const Tensor& written, std::shared_ptr<Node> node) {
  Tensor::Storage& storage = *written.storage();
  const Tensor grad = storage.autograd == nullptr ? Tensor() : storage.autograd->grad;
  storage.autograd = std::make_shared<Meta>(Meta{true, grad, std::move(node)});
}

bool autograd::check_in_place(std::string_view name, const std::vector<Tensor>& operands) {
  const bool is_recorded =
      std::ranges::any_of(operands, [](const Tensor& operand) { return needs_grad(operand); });
  if (is_recorded) check_target(name, operands.front());
  return is_recorded;
}

void autograd::record_in_place(std::string_view name, const std::vector<Tensor>& operands,
                               Backward backward) {
  const Tensor& target = operands.front();
  const Tensor written = written_through(target);
  auto node = node_of_write(name, target, written);
  node->edges.push_back(edge_to(written));
  for (std::size_t i = 1; i < operands.size(); ++i) node->edges.push_back(edge_to(operands[i]));
  const bool is_view = written.storage() != target.storage();
  node->backward =
      is_view ? through_view(target.storage()->view->of, std::move(backward)) : std::move(backward);
  set_history(written, std::move(node));
}

void autograd::copy_elements(const Tensor& target, const Tensor& source, const Location& location) {
  const bool is_recorded = kernbench::is_recorded(target, source);
  if (is_recorded) check_target("copy_", target);
  std::optional<runtime::NamedCall> call;
  if (!target.is_host()) call.emplace(*target.storage()->simulation, "copy_", location);
  kernbench::copy_elements(target, source, location);
  if (is_recorded) record_copy(target, source);
}

const Tensor& Tensor::copy_shard_(std::size_t index, const Tensor& source,
                                  Location location) const {
  checked();
  source.checked();
  if (!is_host() && is_recorded(*this, source)) {
    throw CollectiveError(
        "KB-A008",
        "copy_shard_ into tensor '{}' {} is not recorded, and a gradient would have to flow "
        "through it; call it while a NoGradGuard lives, or on detach()",
        name(), to_string(shape()));
  }
  runtime::copy_elements_of_shard(*this, index, source, location);
  return *this;
}

}  // namespace kernbench
