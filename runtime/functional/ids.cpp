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

struct Id {
  std::int64_t number = 0;
  bool is_whole = true;
  std::string text;
};

std::vector<Id> read_ids(const Tensor& ids, HostRead entry_point) {
  std::vector<Id> read;
  if (is_integral(ids.dtype())) {
    for (const std::int64_t number : runtime::read_integers(ids, entry_point)) {
      read.push_back({number, true, {}});
    }
    return read;
  }
  for (const float number : runtime::read_elements(ids, entry_point)) {
    read.push_back({sim::to_whole_number(DType::i64, number), number == std::floor(number),
                    fmt::format("{}", number)});
  }
  return read;
}

// Returns the text of the id, unless it is one of the numbers below `end`.
std::optional<std::string> outside(const Id& id, std::int64_t end) {
  if (id.is_whole && id.number >= 0 && id.number < end) return std::nullopt;
  return id.text.empty() ? fmt::format("{}", id.number) : id.text;
}

bool has_values(const Tensor& x) {
  return x.storage()->simulation->machine().memory().has_data();
}

}  // namespace

DType type_of_ids(std::string_view name, const Tensor& ids, std::int64_t end) {
  const DType type = type_of_numbers(end);
  if (type == DType::f32 || is_integral(ids.dtype())) return type;
  throw DeviceError(
      "KB-F002", fmt::format("{}: {}; {} has all whole numbers up to 2^24 only, and there are {}: "
                             "make '{}' with {{.dtype = {}}}",
                             name, runtime::describe(ids), name_of(ids.dtype()), end, ids.name(),
                             runtime::words_for(DType::i64)));
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
  if (!has_values(ids) || runtime::is_in_use(*ids.storage())) return;
  const std::int64_t rows = table.shape()[0];
  for (const Id& id : read_ids(ids, HostRead::indices)) {
    if (const auto text = outside(id, rows)) {
      ops::refuse_shapes(name, fmt::format("index out of range in self: '{}' {} has {}, and the "
                                           "rows of '{}' {} are 0 to {}",
                                           ids.name(), to_string(ids.shape()), *text, table.name(),
                                           to_string(table.shape()), rows - 1));
    }
  }
}

std::int64_t count_targets(std::string_view name, const Tensor& targets, std::int64_t class_count,
                           std::int64_t ignore_index) {
  if (!has_values(targets)) return targets.numel();
  std::int64_t count = 0;
  for (const Id& id : read_ids(targets, HostRead::targets)) {
    if (id.is_whole && id.number == ignore_index) continue;
    if (const auto text = outside(id, class_count)) {
      throw DeviceError(
          "KB-F004",
          fmt::format("{}: Target {} is out of bounds: targets '{}' {} are the numbers of classes "
                      "from 0 to {}, or {} (ignore_index)",
                      name, *text, targets.name(), to_string(targets.shape()), class_count - 1,
                      ignore_index));
    }
    ++count;
  }
  return count;
}

}  // namespace kernbench
