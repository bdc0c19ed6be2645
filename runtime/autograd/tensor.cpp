// The autograd functions of Tensor.

#include <cctype>

#include "runtime/autograd/view.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace autograd {
namespace {

Meta& ensure_meta(Tensor::Storage& storage) {
  if (storage.autograd == nullptr) storage.autograd = std::make_shared<Meta>();
  return *storage.autograd;
}

}  // namespace
}  // namespace autograd

const Tensor& Tensor::requires_grad_(bool requires_grad) const {
  Storage& storage = checked();
  if (storage.is_host()) {
    throw CollectiveError("KB-A002",
                          "only tensors on a device can require gradients, and this one "
                          "is a host tensor; copy_ it into one made by zeros, full, ...");
  }
  if (requires_grad && is_integral(storage.dtype)) {
    throw CollectiveError(
        "KB-A002", "only Tensors of floating point dtype can require gradients: tensor '{}' is {}",
        storage.name, name_of(storage.dtype));
  }
  if (!is_leaf() && !requires_grad) {
    throw CollectiveError(
        "KB-A002",
        "you can only change requires_grad flags of leaf variables. If you want to use a computed "
        "variable in a subgraph that doesn't require differentiation use var_no_grad = "
        "var.detach().");
  }
  autograd::ensure_meta(storage).requires_grad = requires_grad;
  return *this;
}

bool Tensor::requires_grad() const {
  autograd::follow_base(checked());
  const auto& meta = checked().autograd;
  return meta != nullptr && meta->requires_grad;
}

bool Tensor::is_leaf() const {
  autograd::follow_base(checked());
  const auto& meta = checked().autograd;
  return meta == nullptr || meta->recorded == nullptr;
}

// "add" is torch's AddBackward0, and "mse_loss" MseLossBackward0.
std::optional<std::string> Tensor::grad_fn() const {
  if (is_leaf()) return std::nullopt;
  static constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
      {"scale", "mul"},
      {"matmul", "mm"},
      {"reshape", "reshape_alias"},
      {"to", "to_copy"},
      {"narrow", "slice"}};
  std::string_view own = checked().autograd->recorded->name;
  for (const auto& [here, in_torch] : kOtherNames) {
    if (own == here) {
      own = in_torch;
      break;
    }
  }
  std::string name = "<";
  bool begins_word = true;
  for (const char letter : own) {
    if (letter != '_') {
      name += begins_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(letter)))
                          : letter;
    }
    begins_word = letter == '_';
  }
  return name + "Backward0>";
}

Tensor Tensor::grad() const {
  const auto& meta = checked().autograd;
  return meta == nullptr ? Tensor() : meta->grad;
}

Tensor& Tensor::mutable_grad() const {
  return autograd::ensure_meta(checked()).grad;
}

void Tensor::zero_grad() const {
  if (const auto& meta = checked().autograd; meta != nullptr) meta->grad = {};
}

Tensor Tensor::detach() const {
  const Storage& storage = checked();
  if (storage.is_host()) return *this;
  return Tensor(runtime::make_view_storage(storage, storage.shape, storage.dp, storage.shards));
}

}  // namespace kernbench
