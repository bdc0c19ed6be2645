#include <fmt/format.h>

#include <utility>

#include "runtime/tl/tl.h"
#include "runtime/tl/values.h"
#include "sim_engine/components/kernel_run.h"
#include "sim_engine/components/processing_element.h"
#include "sim_engine/components/tile.h"

namespace kernbench::tl {

void HandleList::add(Tensor& handle) {
  handle.previous_ = youngest_;
  handle.next_ = nullptr;
  (youngest_ == nullptr ? oldest_ : youngest_->next_) = &handle;
  youngest_ = &handle;
}

void HandleList::remove(Tensor& handle) {
  (handle.previous_ == nullptr ? oldest_ : handle.previous_->next_) = handle.next_;
  (handle.next_ == nullptr ? youngest_ : handle.next_->previous_) = handle.previous_;
}

void HandleList::void_all() {
  while (oldest_ != nullptr) oldest_->let_go();
}

Tensor::Tensor(Context& context, const Shape& shape, sim::Tile tile, std::string_view made_by)
    : context_(&context),
      shape_(shape),
      tile_(std::move(tile)),
      dtype_(tile_->dtype),
      made_by_(made_by) {
  context_->handles_.add(*this);
}

Tensor::Tensor(const Tensor& other)
    : context_(other.context_),
      shape_(other.shape_),
      tile_(other.tile_),
      dtype_(other.dtype_),
      made_by_(other.made_by_) {
  if (context_ != nullptr) context_->handles_.add(*this);
}

Tensor::Tensor(Tensor&& other) noexcept {
  take_over(other);
}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this == &other) return *this;
  let_go();
  take_over(other);
  return *this;
}

void Tensor::let_go() {
  if (context_ == nullptr) return;
  context_->handles_.remove(*this);
  sim::ProcessingElement& pe = context_->run_.pe();
  context_ = nullptr;
  tile_ = {};
  pe.scratch_may_be_free();
}

void Tensor::take_over(Tensor& other) noexcept {
  shape_ = other.shape_;
  dtype_ = other.dtype_;
  made_by_ = other.made_by_;
  if (other.context_ == nullptr) return;
  tile_ = std::move(other.tile_);
  context_ = std::exchange(other.context_, nullptr);
  context_->handles_.remove(other);
  context_->handles_.add(*this);
}

std::string describe(const Tensor& tensor) {
  return fmt::format("{} {}", to_string(tensor.shape()), name_of(tensor.dtype()));
}

}  // namespace kernbench::tl
