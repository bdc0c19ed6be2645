// Tensors made of other tensors' forms, of ranges and of random numbers.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <numeric>
#include <utility>

#include "runtime/random/draw_into.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"
#include "sim_engine/values/element_format.h"

namespace kernbench {

namespace {

// A tensor of the same shape, type and placement, on the same device, with these elements.
Tensor made_like(const Tensor& like, const std::function<void(Tensor::Storage&)>& initialize) {
  runtime::check_on_device(like, "a tensor like another one");
  Tensor made(runtime::make_device_storage(like.storage()->simulation, like.device(), like.shape(),
                                           {.dtype = like.dtype(), .dp = like.dp()}));
  runtime::mark_as_made_by_user(made);
  initialize(*made.storage());
  return made;
}

// Numbers as elements of a type: whole ones without a way through f32, which rounds large ones.
runtime::HostElements to_elements(DType dtype, const std::vector<double>& numbers) {
  if (!is_integral(dtype)) return std::vector<float>(numbers.begin(), numbers.end());
  std::vector<std::int64_t> integers;
  for (const double number : numbers) integers.push_back(sim::to_whole_number(dtype, number));
  return integers;
}

}  // namespace

template <class Number>
Tensor RuntimeContext::make(const Shape& shape, const TensorOptions& options,
                            std::vector<Number> elements) const {
  Tensor made = make(shape, options);
  if constexpr (std::same_as<Number, double>) {
    runtime::set_elements(*made.storage(), to_elements(made.dtype(), elements));
  } else {
    runtime::set_elements(*made.storage(), std::move(elements));
  }
  return made;
}

Tensor RuntimeContext::zeros_like(const Tensor& like) const {
  return full_like(like, 0);
}
Tensor RuntimeContext::ones_like(const Tensor& like) const {
  return full_like(like, 1);
}
Tensor RuntimeContext::full_like(const Tensor& like, const Scalar& value) const {
  return made_like(like, [&](Tensor::Storage& storage) { runtime::fill(storage, value); });
}
Tensor RuntimeContext::empty_like(const Tensor& like) const {
  return made_like(like, [](Tensor::Storage&) {});
}
Tensor RuntimeContext::rand_like(const Tensor& like) const {
  return made_like(like, [&](Tensor::Storage& storage) {
    runtime::set_elements(storage,
                          random::uniform(random::Generator::of(*simulation_, storage.device),
                                          storage.shape.numel(), 0, 1));
  });
}
Tensor RuntimeContext::randn_like(const Tensor& like) const {
  return made_like(like, [&](Tensor::Storage& storage) {
    runtime::set_elements(storage,
                          random::normal(random::Generator::of(*simulation_, storage.device),
                                         storage.shape.numel(), 0, 1));
  });
}

namespace {

// Returns the options with a type, where none was given.
TensorOptions with_dtype(TensorOptions options, DType dtype) {
  options.dtype = options.dtype.value_or(dtype);
  return options;
}

[[noreturn]] void refuse_range(const Scalar& start, const Scalar& end, const Scalar& step) {
  throw DeviceError(
      "KB-F001",
      "arange: upper bound and larger bound inconsistent with step sign: from {} to {} by {}",
      start.real(), end.real(), step.real());
}

// The elements of a range of whole numbers, of which f64 represents some only rounded.  Distances
// are counted modulo 2^64, since they may be larger than an i64.
std::vector<std::int64_t> whole_range(const Scalar& start, const Scalar& end, const Scalar& step) {
  const bool is_up = step.whole() > 0;
  if (is_up ? end.whole() < start.whole() : end.whole() > start.whole()) {
    refuse_range(start, end, step);
  }
  const auto first = static_cast<std::uint64_t>(start.whole());
  const auto by = static_cast<std::uint64_t>(step.whole());
  const std::uint64_t ahead = static_cast<std::uint64_t>(end.whole()) - first;
  const std::uint64_t distance = is_up ? ahead : -ahead;
  const std::uint64_t stride = is_up ? by : -by;
  const std::uint64_t count = distance / stride + (distance % stride == 0 ? 0 : 1);
  std::vector<std::int64_t> elements;
  for (std::uint64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<std::int64_t>(first + i * by));
  }
  return elements;
}

}  // namespace

Tensor RuntimeContext::arange(const Scalar& start, const Scalar& end, const Scalar& step,
                              const TensorOptions& options) const {
  const double by = step.real();
  if (by == 0) throw DeviceError("KB-F001", "arange: step must be nonzero");
  if (is_integral(start.type()) && is_integral(end.type()) && is_integral(step.type())) {
    std::vector<std::int64_t> elements = whole_range(start, end, step);
    const auto count = static_cast<std::int64_t>(elements.size());
    return make({count}, with_dtype(options, DType::i64), std::move(elements));
  }
  const double distance = end.real() - start.real();
  if (by > 0 ? distance < 0 : distance > 0) refuse_range(start, end, step);
  const auto count = static_cast<std::int64_t>(std::ceil(distance / by));
  std::vector<double> elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(start.real() + static_cast<double>(i) * by);
  }
  return make({count}, options, std::move(elements));
}

namespace {

void check_is_no_less_than_none(std::string_view name, std::int64_t number) {
  if (number >= 0) return;
  throw DeviceError("KB-F001", "{}: number of steps or rows must be non-negative, not {}", name,
                    number);
}

}  // namespace

// Elements are counted from the nearer end, as in torch: both ends are met exactly.
Tensor RuntimeContext::linspace(double start, double end, std::int64_t steps,
                                const TensorOptions& options) const {
  check_is_no_less_than_none("linspace", steps);
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  std::vector<double> elements;
  for (std::int64_t i = 0; i < steps; ++i) {
    elements.push_back(i < (steps + 1) / 2 ? start + static_cast<double>(i) * step
                                           : end - static_cast<double>(steps - 1 - i) * step);
  }
  return make({steps}, options, std::move(elements));
}

Tensor RuntimeContext::eye(std::int64_t n, std::int64_t m, const TensorOptions& options) const {
  check_is_no_less_than_none("eye", std::min(n, m));
  std::vector<float> elements(static_cast<std::size_t>(n * m));
  for (std::int64_t i = 0; i < std::min(n, m); ++i) {
    elements[static_cast<std::size_t>(i * m + i)] = 1;
  }
  return make({n, m}, options, std::move(elements));
}

Tensor RuntimeContext::tensor(std::span<const float> elements, const Shape& shape,
                              const TensorOptions& options) const {
  check_count(elements.size(), shape);
  return make(shape, options, std::vector<float>(elements.begin(), elements.end()));
}

Tensor RuntimeContext::tensor(std::span<const std::int64_t> elements, const Shape& shape,
                              const TensorOptions& options) const {
  return of_integers({elements.begin(), elements.end()}, shape, DType::i64, options);
}

Tensor RuntimeContext::of_integers(std::vector<std::int64_t> elements, const Shape& shape,
                                   DType dtype, const TensorOptions& options) const {
  check_count(elements.size(), shape);
  return make(shape, with_dtype(options, dtype), std::move(elements));
}

Tensor RuntimeContext::tensor(std::initializer_list<Scalar> elements, const Shape& shape,
                              const TensorOptions& options) const {
  check_count(elements.size(), shape);
  if (const DType dtype = options.dtype.value_or(get_default_dtype()); is_integral(dtype)) {
    std::vector<std::int64_t> integers;
    for (const Scalar& element : elements) {
      runtime::check_fits("tensor", element, dtype);
      integers.push_back(is_integral(element.type()) ? element.whole()
                                                     : sim::to_whole_number(dtype, element.real()));
    }
    return make(shape, options, std::move(integers));
  }
  std::vector<float> numbers;
  for (const Scalar& element : elements) numbers.push_back(static_cast<float>(element.real()));
  return make(shape, options, std::move(numbers));
}

Tensor RuntimeContext::rand(const Shape& shape, const TensorOptions& options) const {
  const Tensor made = make(shape, options);
  random::draw_into(
      *made.storage(), random::Generator::of(*simulation_, ahbm.current_device()),
      [&](auto& generator) { return random::uniform(generator, made.numel(), 0, 1); });
  return made;
}
Tensor RuntimeContext::randn(const Shape& shape, const TensorOptions& options) const {
  const Tensor made = make(shape, options);
  random::draw_into(*made.storage(), random::Generator::of(*simulation_, ahbm.current_device()),
                    [&](auto& generator) { return random::normal(generator, made.numel(), 0, 1); });
  return made;
}

Tensor RuntimeContext::randint(std::int64_t low, std::int64_t high, const Shape& shape,
                               const TensorOptions& options) const {
  if (low >= high) {
    throw DeviceError(
        "KB-F001", "randint: random_ expects 'from' to be less than 'to', but got from={} >= to={}",
        low, high);
  }
  if (options.dtype) {
    runtime::check_fits("randint", low, *options.dtype);
    runtime::check_fits("randint", high - 1, *options.dtype);
  }
  const random::Draw draw = random::Generator::of(*simulation_, ahbm.current_device()).draw();
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  const bool is_wide = range > std::uint64_t{1} << 32;  // than a number drawn: two make one
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    const std::uint64_t bits =
        is_wide ? std::uint64_t{draw.bits(2 * i)} << 32 | draw.bits(2 * i + 1) : draw.bits(i);
    elements.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + bits % range));
  }
  return make(shape, with_dtype(options, DType::i64), std::move(elements));
}

Tensor RuntimeContext::randperm(std::int64_t n, const TensorOptions& options) const {
  check_is_no_less_than_none("randperm", n);
  if (options.dtype) runtime::check_fits("randperm", n, *options.dtype);
  const random::Draw draw = random::Generator::of(*simulation_, ahbm.current_device()).draw();
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  for (std::int64_t i = n - 1; i > 0; --i) {  // Fisher and Yates
    const std::uint64_t bits = std::uint64_t{draw.bits(2 * i)} << 32 | draw.bits(2 * i + 1);
    std::swap(numbers[static_cast<std::size_t>(i)],
              numbers[bits % (static_cast<std::uint64_t>(i) + 1)]);
  }
  return make({n}, with_dtype(options, DType::i64), std::move(numbers));
}

Tensor RuntimeContext::tensor(std::initializer_list<std::initializer_list<float>> rows) {
  std::vector<float> elements;
  const std::size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  for (const std::initializer_list<float>& row : rows) {
    if (row.size() != columns) {
      throw DeviceError("KB-M015", "tensor: expected sequence of length {} at dim 1 (got {})",
                        columns, row.size());
    }
    elements.insert(elements.end(), row.begin(), row.end());
  }
  return tensor(elements, {std::ssize(rows), static_cast<std::int64_t>(columns)});
}

void RuntimeContext::manual_seed(std::uint64_t seed) const {
  random::manual_seed(*simulation_, seed);
}

namespace {

using GeneratorState = std::array<std::uint64_t, 2>;
constexpr std::size_t kStateBytes = sizeof(GeneratorState);

}  // namespace

Tensor RuntimeContext::get_rng_state() const {
  const GeneratorState state = random::Generator::of(*simulation_, ahbm.current_device()).state();
  const auto bytes = std::bit_cast<std::array<std::uint8_t, kStateBytes>>(state);
  return from_blob(bytes.data(), {std::ssize(bytes)});
}

void RuntimeContext::set_rng_state(const Tensor& state) const {
  if (!state.defined() || state.dtype() != DType::u8 || !state.is_host()) {
    throw DeviceError("KB-F002",
                      "set_rng_state: RNG state must be a torch.ByteTensor on the host, such as "
                      "torch.get_rng_state() gives");
  }
  if (state.numel() != kStateBytes) {
    throw DeviceError("KB-M015", "set_rng_state: RNG state is wrong size: {} bytes, not {}",
                      state.numel(), kStateBytes);
  }
  std::array<std::uint8_t, kStateBytes> bytes;
  std::ranges::copy(state.to_vector<std::uint8_t>(), bytes.begin());
  random::Generator::of(*simulation_, ahbm.current_device())
      .set_state(std::bit_cast<GeneratorState>(bytes));
}

Device RuntimeContext::device(std::string_view type, int index) {
  return Device(fmt::format("{}:{}", type, index));
}

}  // namespace kernbench
