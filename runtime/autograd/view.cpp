#include "runtime/autograd/view.h"

#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/tensor/host_copy.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"

namespace kernbench::autograd {

namespace {

std::uint64_t history_of(const Tensor::Storage& storage) {
  const bool is_recorded = storage.autograd != nullptr && storage.autograd->recorded != nullptr;
  return is_recorded ? storage.autograd->recorded->number : 0;
}

}  // namespace

Tensor find_base(const Tensor::Storage& storage) {
  if (storage.view == nullptr) return {};
  const View& view = *storage.view;
  return Tensor(view.base != nullptr ? view.base : view.base_without_gradients.lock());
}

void follow_base(Tensor::Storage& storage) {
  if (storage.view == nullptr || !storage.view->has_gradients()) return;
  View& view = *storage.view;
  if (std::exchange(view.history, history_of(*view.base)) == view.history) return;
  auto node = NodeList::of(*storage.simulation).make(view.name);
  node->edges.push_back({view.base->autograd->recorded, {}, make_gradient_form(Tensor(view.base))});
  node->backward = view.gradient_of_base;
  storage.autograd = std::make_shared<Meta>(Meta{true, {}, std::move(node)});
}

void note_view(const Tensor& output, const Tensor& input, std::string_view name,
               std::function<Tensor(const Tensor& input)> of,
               std::function<Tensor(const Tensor& grad_output)> gradient) {
  const Tensor::Storage& from = *input.storage();
  auto view = std::make_shared<View>();
  view->name = name;
  std::shared_ptr<Tensor::Storage> base = input.storage();
  if (const Tensor of_input = find_base(from); of_input.defined()) {
    base = of_input.storage();
    view->of = [outer = from.view->of, of](const Tensor& x) { return of(outer(x)); };
    view->gradient_of_base = [outer = from.view->gradient_of_base, gradient](const Tensor& dy) {
      return outer(gradient(dy));
    };
  } else {
    view->of = std::move(of);
    view->gradient_of_base = [gradient](const Tensor& dy) { return std::vector{gradient(dy)}; };
  }
  view->history = history_of(*base);
  const bool keeps_base =
      is_grad_enabled(*from.simulation) && (from.view == nullptr || from.view->has_gradients());
  if (keeps_base) {
    view->base = std::move(base);
  } else {
    view->base_without_gradients = base;
  }
  output.storage()->view = std::move(view);
}

Tensor zero_gradient(const Tensor::Storage& like, const GradientForm& form) {
  const auto dp = ops::to_policy(ops::gradient_placement(form.placement), form.shape.rank());
  KB_CHECK(dp, "a gradient that no policy places");
  Tensor made(runtime::make_device_storage(like.simulation, form.placement.device, form.shape,
                                           {.dtype = form.dtype, .dp = *dp, .name = "grad"}));
  runtime::fill(*made.storage(), 0);
  return made;
}

Tensor gradient_in_form(const Tensor& gradient, const GradientForm& form) {
  if (gradient.dtype() == form.dtype && !runtime::lies_apart(*gradient.storage()) &&
      ops::is_gradient_placement(ops::placement_of(gradient), form.placement)) {
    return gradient;
  }
  const Tensor made = zero_gradient(*gradient.storage(), form);
  runtime::copy_elements(made, gradient);
  return made;
}

}  // namespace kernbench::autograd
