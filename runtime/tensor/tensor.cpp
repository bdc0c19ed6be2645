#include "runtime/tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <concepts>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "runtime/tensor/host_copy.h"
#include "runtime/tensor/host_read.h"
#include "runtime/tensor/slices.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/values/element_format.h"

namespace kernbench {

Tensor::Storage& Tensor::checked() const {
  if (storage_ == nullptr) throw DeviceError("KB-M001", "the tensor is not defined");
  return *storage_;
}

const Shape& Tensor::shape() const {
  return checked().shape;
}
DType Tensor::dtype() const {
  return checked().dtype;
}
const std::string& Tensor::name() const {
  return checked().name;
}
bool Tensor::is_host() const {
  return checked().is_host();
}
int Tensor::device() const {
  return checked().device;
}
const DPPolicy& Tensor::dp() const {
  return checked().dp;
}
const std::vector<ShardInfo>& Tensor::shards() const {
  return checked().shards;
}

std::vector<std::int64_t> Tensor::stride() const {
  if (is_host() || storage_->span == 0) return runtime::dense_strides(shape());
  return runtime::strides_of(shards().front());
}

namespace {

using runtime::contributes;
using runtime::HostElements;
using runtime::HostRead;
using runtime::is_sum;

// Appends the elements of a strided shard from dimension `d` on, row by row.
template <class Number>
void append(std::vector<Number>& elements, const ShardInfo& shard, std::span<const Number> memory,
            std::size_t d = 0) {
  if (shard.shape.numel() == 0) return;
  if (d == shard.shape.rank()) return elements.push_back(memory.front());
  for (std::int64_t i = 0; i < shard.shape[d]; ++i) {
    append(elements, shard, memory.subspan(static_cast<std::size_t>(i * shard.strides[d])), d + 1);
  }
}

template <class Number>
std::vector<Number> read_shard(const Tensor::Storage& storage, std::size_t index) {
  const sim::DeviceBuffer& buffer = storage.buffers().at(index);
  std::vector<Number> memory =
      storage.simulation->read<Number>(storage.simulation->machine().memory().load(
          buffer.region, buffer.first, buffer.element_count));
  if (storage.span == 0) return memory;
  std::vector<Number> elements;
  append(elements, storage.shards[index], std::span<const Number>(memory));
  return elements;
}

template <class Number>
std::vector<Number> gather(const Tensor::Storage& storage) {
  const bool adds = is_sum(storage);
  std::vector<Number> elements(static_cast<std::size_t>(storage.shape.numel()), Number{0});
  for (std::size_t i = 0; i < storage.shards.size(); ++i) {
    const ShardInfo& shard = storage.shards[i];
    if (!contributes(storage, shard) || shard.shape.numel() == 0) continue;
    const std::vector<Number> part = read_shard<Number>(storage, i);
    runtime::for_each_run(storage.shape, shard,
                          [&](std::int64_t to, std::int64_t from, std::int64_t count) {
                            for (std::int64_t k = 0; k < count; ++k) {
                              Number& element = elements[static_cast<std::size_t>(to + k)];
                              const Number read = part[static_cast<std::size_t>(from + k)];
                              element = adds ? element + read : read;
                            }
                          });
  }
  return elements;
}

// Returns the position in a shard of an element of the whole tensor; nullopt if it lies elsewhere.
std::optional<std::int64_t> position_in(const ShardInfo& shard,
                                        std::span<const std::int64_t> index) {
  const std::vector<std::int64_t> strides = runtime::strides_of(shard);
  std::int64_t position = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    const std::int64_t own = index[d] - shard.offset[d];
    if (own < 0 || own >= shard.shape[d]) return std::nullopt;
    position += own * strides[d];
  }
  return position;
}

// Returns the element at a position among all, row by row.
template <class Number>
Number gather_one(const Tensor::Storage& storage, std::size_t position_of_all) {
  std::vector<std::int64_t> index(storage.shape.rank());
  auto rest = static_cast<std::int64_t>(position_of_all);
  for (std::size_t d = index.size(); d-- > 0; rest /= storage.shape[d]) {
    index[d] = rest % storage.shape[d];
  }
  Number element = 0;
  for (std::size_t i = 0; i < storage.shards.size(); ++i) {
    const ShardInfo& shard = storage.shards[i];
    if (!contributes(storage, shard) || shard.shape.numel() == 0) continue;
    const auto position = position_in(shard, index);
    if (!position) continue;
    const sim::DeviceBuffer& buffer = storage.buffers()[i];
    const Number part = storage.simulation
                            ->read<Number>(storage.simulation->machine().memory().load(
                                buffer.region, buffer.first + *position, 1))
                            .front();
    element = is_sum(storage) ? element + part : part;
  }
  return element;
}

// Waits as `entry_point`, then checks that there are values to read.
void begin_read(Tensor::Storage& storage, HostRead entry_point) {
  runtime::begin_host_read(storage, entry_point);
  if (!storage.simulation->machine().memory().has_data()) {
    throw DeviceError("KB-M018",
                      "tensor '{}' has no values: the context was made with data = false",
                      storage.name);
  }
}

template <class Number>
std::vector<Number> read(Tensor::Storage& storage, HostRead entry_point) {
  if (!storage.is_host()) {
    begin_read(storage, entry_point);
    return gather<Number>(storage);
  }
  return std::visit(
      [&](const auto& all) {
        const auto first = all.begin() + storage.first;
        return std::vector<Number>(first, first + storage.shape.numel());
      },
      *storage.host);
}

template <class Number>
std::vector<Number> read_one(Tensor::Storage& storage, std::size_t position) {
  if (!storage.is_host()) {
    begin_read(storage, HostRead::at);
    return {gather_one<Number>(storage, position)};
  }
  const std::size_t at = static_cast<std::size_t>(storage.first) + position;
  return std::visit([at](const auto& all) { return std::vector{static_cast<Number>(all[at])}; },
                    *storage.host);
}

// Returns read(Number()), or, of integers from a type of floating point, read(float()) converted.
template <class Number, class Read>
std::vector<Number> read_as(const Tensor::Storage& storage, const Read& read) {
  if constexpr (!std::same_as<Number, float>) {
    if (!is_integral(storage.dtype)) {
      std::vector<Number> integers;
      for (const float number : read(float())) {
        integers.push_back(sim::to_whole_number(DType::i64, double{number}));
      }
      return integers;
    }
  }
  return read(Number());
}

template <class Number>
std::vector<Number> read_all(Tensor::Storage& storage, HostRead entry_point) {
  return read_as<Number>(storage,
                         [&](auto own) { return read<decltype(own)>(storage, entry_point); });
}

HostElements read_any(Tensor::Storage& storage, HostRead entry_point) {
  if (is_integral(storage.dtype)) return read<std::int64_t>(storage, entry_point);
  return read<float>(storage, entry_point);
}

// The part of the tensor that a shard holds; is_zero: the shard's summand is 0 instead.
struct Place {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> sizes;
  bool is_zero = false;
  friend auto operator<=>(const Place&, const Place&) = default;
};

Place make_place(const Tensor::Storage& storage, std::size_t index) {
  const ShardInfo& shard = storage.shards[index];
  return {shard.offset,
          {shard.shape.begin(), shard.shape.end()},
          runtime::holds_summand_zero(storage, index)};
}

template <class Number>
std::vector<Number> copy_part(const Tensor::Storage& storage, std::size_t index,
                              const std::vector<Number>& elements) {
  const ShardInfo& shard = storage.shards[index];
  std::vector<Number> part(static_cast<std::size_t>(shard.shape.numel()), Number{0});
  if (!runtime::holds_summand_zero(storage, index)) {
    runtime::for_each_run(storage.shape, shard,
                          [&](std::int64_t from, std::int64_t to, std::int64_t count) {
                            std::copy_n(elements.begin() + from, count, part.begin() + to);
                          });
  }
  return part;
}

void check_shard(const Tensor::Storage& storage, std::size_t index, std::string_view operation) {
  if (index < storage.shards.size()) return;
  const std::string text = fmt::format("{}: tensor '{}' has", operation, storage.name);
  throw DeviceError("KB-M017", storage.is_host() ? text + " no shards: it is a host tensor"
                                                 : fmt::format("{} shards 0 to {}, not {}", text,
                                                               storage.shards.size() - 1, index));
}

}  // namespace

template <class Number>
std::vector<Number> Tensor::read(Read what, std::size_t index) const {
  Storage& storage = checked();
  switch (what) {
    case Read::shard:
      check_shard(storage, index, "shard_to_vector");
      begin_read(storage, HostRead::shard_to_vector);
      return read_as<Number>(storage,
                             [&](auto own) { return read_shard<decltype(own)>(storage, index); });
    case Read::element:
      return read_as<Number>(storage,
                             [&](auto own) { return read_one<decltype(own)>(storage, index); });
    case Read::item:
      if (numel() == 1) break;
      throw DeviceError("KB-M016",
                        "only one element tensors can be converted to Python scalars: a Tensor "
                        "with {} elements cannot be converted to Scalar",
                        numel());
    case Read::matrix:
      if (shape().rank() == 2) break;
      throw DeviceError("KB-M015", "to_eigen: tensor '{}' is {}, not a matrix", name(),
                        to_string(shape()));
    case Read::all:
      break;
  }
  const HostRead entry_point = what == Read::item     ? HostRead::item
                               : what == Read::matrix ? HostRead::to_eigen
                                                      : HostRead::to_vector;
  return read_all<Number>(storage, entry_point);
}
template std::vector<float> Tensor::read(Read, std::size_t) const;
template std::vector<std::int64_t> Tensor::read(Read, std::size_t) const;

std::size_t Tensor::find_position(std::initializer_list<std::int64_t> index) const {
  std::int64_t position = 0;
  std::size_t dimension = 0;
  for (const std::int64_t given : index) {
    const std::int64_t size = dimension < shape().rank() ? shape()[dimension] : 0;
    const std::int64_t i = given < 0 ? given + size : given;
    if (i < 0 || i >= size) {
      throw DeviceError("KB-M017", "index [{}] is out of range of tensor '{}' {}",
                        fmt::join(index, ", "), name(), to_string(shape()));
    }
    position = position * size + i;
    ++dimension;
  }
  if (dimension != shape().rank()) {
    throw DeviceError("KB-M017", "tensor '{}' {} takes {} indices, not {}", name(),
                      to_string(shape()), shape().rank(), dimension);
  }
  return static_cast<std::size_t>(position);
}

std::vector<float> runtime::read_elements(const Tensor& tensor, HostRead entry_point) {
  return read<float>(*tensor.storage(), entry_point);
}

std::vector<std::int64_t> runtime::read_integers(const Tensor& tensor, HostRead entry_point) {
  return read_all<std::int64_t>(*tensor.storage(), entry_point);
}

void runtime::copy_elements(const Tensor& into, const Tensor& source,
                            const std::source_location& location) {
  Tensor::Storage& target = *into.storage();
  const HostElements elements = read_any(*source.storage(), HostRead::copy_source);
  if (target.is_host()) {
    std::visit(
        [&](const auto& from, auto& to) {
          std::ranges::transform(from, to.begin() + target.first, [&](auto number) {
            if constexpr (std::same_as<decltype(to), std::vector<float>&>) {
              return static_cast<float>(number);
            } else {
              return sim::to_whole_number(target.dtype, number);
            }
          });
        },
        elements, *target.host);
    return;
  }
  std::vector<runtime::ShardWrite> writes;
  std::map<Place, std::shared_ptr<const HostElements>> parts;  // shared by copies
  for (std::size_t i = 0; i < target.shards.size(); ++i) {
    auto& part = parts[make_place(target, i)];
    if (part == nullptr) {
      part = std::visit(
          [&](const auto& all) {
            return std::make_shared<const HostElements>(copy_part(target, i, all));
          },
          elements);
    }
    writes.push_back({i, part});
  }
  runtime::copy_from_host(into, std::move(writes), "copy_", location);
}

void runtime::set_elements(Tensor::Storage& storage, const HostElements& elements) {
  begin_host_write(storage);
  sim::MemoryStore& memory = storage.simulation->machine().memory();
  std::map<Place, sim::Value> parts;  // shared by copies
  for (std::size_t i = 0; i < storage.shards.size(); ++i) {
    const sim::DeviceBuffer& buffer = storage.buffers()[i];
    if (buffer.element_count == 0) continue;
    const auto [part, is_new] = parts.try_emplace(make_place(storage, i));
    if (is_new) {
      part->second = std::visit(
          [&](const auto& all) {
            return memory.literal(storage.dtype, std::span(std::as_const(all)));
          },
          std::visit([&](const auto& all) -> HostElements { return copy_part(storage, i, all); },
                     elements));
    }
    memory.store(buffer.region, buffer.first, part->second);
  }
}

void runtime::copy_elements_of_shard(const Tensor& into, std::size_t index, const Tensor& source,
                                     const std::source_location& location) {
  check_shard(*into.storage(), index, "copy_shard_");
  if (!into.is_host()) check_is_contiguous(into, "copy_shard_");
  const ShardInfo& shard = into.shards()[index];
  if (source.shape() != shard.shape) {
    throw DeviceError("KB-M015", "copy_shard_: '{}' is {}, shard {} of '{}' is {}; they must agree",
                      source.name(), to_string(source.shape()), index, into.name(),
                      to_string(shard.shape));
  }
  std::vector<runtime::ShardWrite> writes;
  writes.push_back({index, std::make_shared<const HostElements>(
                               read_any(*source.storage(), HostRead::copy_source))});
  runtime::copy_from_host(into, std::move(writes), "copy_shard_", location);
}

}  // namespace kernbench
