// The methods of Tensor that write into it.

#include "runtime/autograd/in_place.h"

#include "runtime/functional/arithmetic.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/random/generator.h"
#include "runtime/tensor/data_under_way.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

const Tensor& Tensor::add_(const Tensor& other, double alpha) const {
  const bool is_plain = alpha == 1;
  return apply_in_place(is_plain ? arithmetic::kAdd : arithmetic::kAddScaled, *this, {other},
                        {arithmetic::alpha_of(*this, other, alpha)});
}
const Tensor& Tensor::add_(const Scalar& number) const {
  return apply_in_place(arithmetic::kAddNumber, *this, {}, {number});
}
const Tensor& Tensor::sub_(const Tensor& other, double alpha) const {
  const bool is_plain = alpha == 1;
  return apply_in_place(is_plain ? arithmetic::kSub : arithmetic::kAddScaled, *this, {other},
                        {arithmetic::alpha_of(*this, other, -alpha)});
}
const Tensor& Tensor::sub_(const Scalar& number) const {
  return add_(-number);
}
const Tensor& Tensor::mul_(const Tensor& other) const {
  return apply_in_place(arithmetic::kMul, *this, {other});
}
const Tensor& Tensor::mul_(const Scalar& number) const {
  return apply_in_place(arithmetic::kScale, *this, {}, {number});
}
const Tensor& Tensor::div_(const Tensor& other) const {
  return apply_in_place(arithmetic::kDiv, *this, {other});
}
const Tensor& Tensor::div_(const Scalar& number) const {
  return apply_in_place(arithmetic::kDivNumber, *this, {}, {number});
}
const Tensor& Tensor::neg_() const {
  arithmetic::check_is_no_bool("neg", *this);
  return apply_in_place(arithmetic::kNeg, *this);
}

namespace {

// What is overwritten needs no gradient.
std::vector<Tensor> no_gradient(const Tensor&) {
  return {Tensor()};
}

}  // namespace

const Tensor& Tensor::fill_(const Scalar& value) const {
  ops::check_operands("fill_", {*this}, ops::Types::any);
  if (value.real() != 0) ops::check_is_whole("fill_", *this);
  const bool is_recorded = autograd::check_in_place("fill_", {*this});
  ops::fill(*this, as_element("fill_", value, dtype()));
  if (is_recorded) autograd::record_in_place("fill_", {*this}, no_gradient);
  return *this;
}

const Tensor& Tensor::zero_() const {
  return fill_(0);
}

namespace {

// Writes what `numbers` draws.
template <class Numbers>
void set_random(std::string_view name, const Tensor& x, const Numbers& numbers) {
  ops::check_operands(name, {x});
  const bool is_recorded = autograd::check_in_place(name, {x});
  runtime::check_may_touch(x, runtime::Touch::writes, [&] { return std::string(name); });
  const Tensor dense = contiguous(x.detach());
  runtime::set_elements(*dense.storage(),
                        numbers(random::Generator::of(*x.storage()->simulation, x.device())));
  if (runtime::is_strided(x)) x.detach().copy_(dense);
  if (is_recorded) autograd::record_in_place(name, {x}, no_gradient);
}

}  // namespace

const Tensor& Tensor::uniform_(double from, double to) const {
  set_random("uniform_", *this, [&](random::Generator& generator) {
    return random::uniform(generator, numel(), from, to);
  });
  return *this;
}

const Tensor& Tensor::normal_(double mean, double std) const {
  set_random("normal_", *this, [&](random::Generator& generator) {
    return random::normal(generator, numel(), mean, std);
  });
  return *this;
}

}  // namespace kernbench
