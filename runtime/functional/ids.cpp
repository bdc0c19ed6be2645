#include "runtime/functional/ids.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/tensor/describe.h"
#include "runtime/tensor/host_read.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"
#include "sim_engine/values/element_format.h"

namespace kernbench {

namespace {

using runtime::HostRead;

constexpr std::int64_t kExactInF32 = 1 << 24;  // f32 has all whole numbers up to here

DType type_of_numbers(std::int64_t end) {
  return end <= kExactInF32 ? DType::f32 : DType::i64;
}

// Calls found(text) for the first id that is neither `ignored` nor one of the numbers below `end`,
// and returns how many came before it that are not ignored.
template <class Found>
std::int64_t count_until(const std::vector<std::int64_t>& ids, std::int64_t end,
                         std::optional<std::int64_t> ignored, const Found& found) {
  std::int64_t count = 0;
  for (const std::int64_t id : ids) {
    if (id == ignored) continue;
    if (id < 0 || id >= end) found(fmt::format("{}", id));
    ++count;
  }
  return count;
}

template <class Found>
std::int64_t count_until(const std::vector<float>& ids, std::int64_t end,
                         std::optional<std::int64_t> ignored, const Found& found) {
  std::int64_t count = 0;
  for (const float id : ids) {
    const std::int64_t number = sim::to_whole_number(DType::i64, id);
    const bool is_whole = id == std::floor(id);
    if (is_whole && number == ignored) continue;
    if (!is_whole || number < 0 || number >= end) found(fmt::format("{}", id));
    ++count;
  }
  return count;
}

template <class Found>
std::int64_t count_ids(const Tensor& ids, HostRead entry_point, std::int64_t end,
                       std::optional<std::int64_t> ignored, const Found& found) {
  return is_integral(ids.dtype())
             ? count_until(runtime::read_integers(ids, entry_point), end, ignored, found)
             : count_until(runtime::read_elements(ids, entry_point), end, ignored, found);
}

bool has_values(const Tensor& x) {
  return x.storage()->simulation->machine().memory().has_data();
}

// True if the host can read the elements without waiting.
bool is_known(const Tensor& x) {
  const Tensor::Storage& storage = *x.storage();
  return has_values(x) && storage.memory->deferred == nullptr && !runtime::is_in_use(storage);
}

}  // namespace

DType type_of_ids(std::string_view name, const Tensor& ids, std::int64_t end) {
  const DType type = type_of_numbers(end);
  if (type == DType::f32 || is_integral(ids.dtype())) return type;
  throw DeviceError("KB-F002",
                    "{}: {}; {} has all whole numbers up to 2^24 only, and there are {}: make '{}' "
                    "with {{.dtype = {}}}",
                    name, runtime::describe(ids), name_of(ids.dtype()), end, ids.name(),
                    runtime::words_for(DType::i64));
}

Tensor numbers_beside(const Tensor& x, std::int64_t count) {
  ops::Placement placement = ops::placement_of(x);
  placement.cube = placement.pe = ops::kReplicate;
  Tensor made = ops::make_like(x, "numbers", {count}, type_of_numbers(count), placement);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  runtime::set_elements(*made.storage(), std::move(numbers));
  return made;
}

void check_ids(std::string_view name, const Tensor& ids, const Tensor& table) {
  if (!is_known(ids)) return;
  const std::int64_t rows = table.shape()[0];
  count_ids(ids, HostRead::indices, rows, std::nullopt, [&](const std::string& text) {
    ops::refuse_shapes(name, fmt::format("index out of range in self: '{}' {} has {}, and the "
                                         "rows of '{}' {} are 0 to {}",
                                         ids.name(), to_string(ids.shape()), text, table.name(),
                                         to_string(table.shape()), rows - 1));
  });
}

std::int64_t count_targets(std::string_view name, const Tensor& targets, std::int64_t class_count,
                           std::int64_t ignore_index) {
  if (!has_values(targets)) return targets.numel();
  const auto refuse = [&](const std::string& text) {
    throw DeviceError("KB-F004",
                      "{}: Target {} is out of bounds: targets '{}' {} are the numbers of classes "
                      "from 0 to {}, or {} (ignore_index)",
                      name, text, targets.name(), to_string(targets.shape()), class_count - 1,
                      ignore_index);
  };
  return count_ids(targets, HostRead::targets, class_count, ignore_index, refuse);
}

double weigh_targets(const Tensor& targets, const Tensor& weight, std::int64_t ignore_index) {
  if (!has_values(targets)) return static_cast<double>(targets.numel());
  const std::vector<float> weights = weight.to_vector();
  double sum = 0;
  for (const std::int64_t id : runtime::read_integers(targets, HostRead::targets)) {
    if (id != ignore_index) sum += weights[static_cast<std::size_t>(id)];
  }
  return sum;
}

Shape without_classes(const Shape& shape) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes.erase(sizes.begin() + (sizes.size() == 1 ? 0 : 1));
  return Shape(sizes);
}

void check_target_shape(std::string_view name, const Tensor& input, const Tensor& target) {
  const Shape& shape = input.shape();
  const Shape& of_target = target.shape();
  if (shape.rank() == 0) ops::refuse_shapes(name, "input tensor should be 1D or 2D");
  const Shape expected = without_classes(shape);
  if (of_target == expected) return;
  const auto refuse = [&](const std::string& text) {
    ops::refuse_shapes(name, fmt::format("{}: '{}' {} and '{}' {}; {} is wanted", text,
                                         input.name(), to_string(shape), target.name(),
                                         to_string(of_target), to_string(expected)));
  };
  if (shape.rank() == 1) {
    refuse(fmt::format("size mismatch (got input: {}, target: {})", to_string(shape),
                       to_string(of_target)));
  }
  if (shape.rank() == 2 && of_target.rank() != 1) {
    refuse("0D or 1D target tensor expected, multi-target not supported");
  }
  if (of_target.rank() > 0 && of_target[0] != shape[0]) {
    refuse(fmt::format("Expected input batch_size ({}) to match target batch_size ({}).", shape[0],
                       of_target[0]));
  }
  refuse(fmt::format("Expected target size {}, got {}", to_string(expected), to_string(of_target)));
}

void check_class_weight(std::string_view name, const Tensor& weight, std::int64_t classes) {
  if (!weight.defined() || weight.shape() == Shape{classes}) return;
  ops::refuse_shapes(name, fmt::format("weight tensor should be defined either for all {} classes "
                                       "or no classes but got weight tensor of shape: {}",
                                       classes, to_string(weight.shape())));
}

Tensor classes_in_rows(const Tensor& x) {
  if (x.dim() == 1) return unsqueeze(x, 0);
  if (x.dim() == 2) return x;
  std::vector<int> dims{0};
  for (int d = 2; d < static_cast<int>(x.dim()); ++d) dims.push_back(d);
  dims.push_back(1);
  const std::int64_t classes = x.size(1);
  return reshape(permute(x, dims), {classes == 0 ? 0 : x.numel() / classes, classes});
}

void check_probabilities(std::string_view name, const Tensor& x) {
  if (!is_known(x)) return;
  for (const float p : runtime::read_elements(x, HostRead::indices)) {
    if (p >= 0 && p <= 1) continue;
    ops::refuse_shapes(name, fmt::format("all elements of input should be between 0 and 1: '{}' {} "
                                         "has {}; sigmoid() makes probabilities of logits",
                                         x.name(), to_string(x.shape()), p));
  }
}

}  // namespace kernbench
