#include "runtime/functional/ids.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

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
  const Tensor::Storage& storage = *ids.storage();
  if (!has_values(ids) || storage.memory->deferred != nullptr || runtime::is_in_use(storage)) {
    return;
  }
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

}  // namespace kernbench
