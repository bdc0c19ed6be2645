// The methods of Tensor that write into it.

#include "runtime/autograd/in_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/functional/arithmetic.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/random/draw_into.h"
#include "runtime/tensor/data_under_way.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

// Throws KB-M015, in torch's words, unless the source broadcasts to the target's shape.
void check_broadcasts(const Tensor& target, const Tensor& source) {
  const Shape& to = target.shape();
  const Shape& from = source.shape();
  const auto refuse = [&](const std::string& text) {
    throw DeviceError("KB-M015", "copy_: {}: '{}' is {}, '{}' is {}", text, source.name(),
                      to_string(from), target.name(), to_string(to));
  };
  for (std::size_t i = 1; i <= std::min(to.rank(), from.rank()); ++i) {
    const std::int64_t a = to[to.rank() - i];
    const std::int64_t b = from[from.rank() - i];
    if (a == b || a == 1 || b == 1) continue;
    refuse(
        fmt::format("The size of tensor a ({}) must match the size of tensor b ({}) at "
                    "non-singleton dimension {}",
                    a, b, std::max(to.rank(), from.rank()) - i));
  }
  const Shape both = ops::broadcast_sizes("copy_", to, from);
  if (both == to) return;
  refuse(fmt::format("output with shape {} doesn't match the broadcast shape {}", to_string(to),
                     to_string(both)));
}

// The elements of a host tensor, repeated to another shape.
template <class Number>
Tensor repeated(const Tensor& host, const Shape& shape) {
  const std::vector<Number> from = host.to_vector<Number>();
  const Shape& own = host.shape();
  std::vector<Number> elements(static_cast<std::size_t>(shape.numel()));
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    std::int64_t position = 0;
    std::int64_t stride = 1;
    std::int64_t rest = i;
    for (std::size_t d = 1; d <= own.rank(); ++d) {
      const std::int64_t size = own[own.rank() - d];
      if (size != 1) position += rest % shape[shape.rank() - d] * stride;
      rest /= shape[shape.rank() - d];
      stride *= size;
    }
    elements[static_cast<std::size_t>(i)] = from[static_cast<std::size_t>(position)];
  }
  return Tensor(runtime::make_host_storage(shape, std::move(elements), host.dtype()));
}

// Returns the source with the target's shape.
Tensor broadcast(const Tensor& target, const Tensor& source) {
  const Shape& shape = target.shape();
  if (source.shape() == shape) return source;
  check_broadcasts(target, source);
  if (!source.is_host()) return expand(source, {shape.begin(), shape.end()});
  return is_integral(source.dtype()) ? repeated<std::int64_t>(source, shape)
                                     : repeated<float>(source, shape);
}

}  // namespace

const Tensor& Tensor::copy_(const Tensor& source, Location location) const {
  autograd::copy_elements(*this, broadcast(*this, source), location);
  return *this;
}

const Tensor& Tensor::add_(const Tensor& other, double alpha) const {
  const bool is_plain = alpha == 1;
  return apply_in_place(is_plain ? arithmetic::kAdd : arithmetic::kAddScaled, *this, {other},
                        {arithmetic::to_alpha(*this, other, alpha)});
}
const Tensor& Tensor::add_(const Scalar& number) const {
  return apply_in_place(arithmetic::kAddNumber, *this, {}, {number});
}
const Tensor& Tensor::sub_(const Tensor& other, double alpha) const {
  const bool is_plain = alpha == 1;
  return apply_in_place(is_plain ? arithmetic::kSub : arithmetic::kAddScaled, *this, {other},
                        {arithmetic::to_alpha(*this, other, -alpha)}, "sub_");
}
const Tensor& Tensor::sub_(const Scalar& number) const {
  return apply_in_place(arithmetic::kAddNumber, *this, {}, {-number}, "sub_");
}
const Tensor& Tensor::mul_(const Tensor& other) const {
  return apply_in_place(arithmetic::kMul, *this, {other});
}
const Tensor& Tensor::mul_(const Scalar& number) const {
  return apply_in_place(arithmetic::kScale, *this, {}, {number}, "mul_");
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

// The old elements are overwritten and do not affect the result, so they get no gradient.
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
  random::draw_into(*dense.storage(), random::Generator::of(*x.storage()->simulation, x.device()),
                    numbers);
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
