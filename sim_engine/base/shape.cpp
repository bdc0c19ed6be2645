#include "sim_engine/base/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

// Small enough that the size in bytes of any dtype fits too.
constexpr std::int64_t kMostElements = std::int64_t{1} << 60;

}  // namespace

Shape::Shape(std::span<const std::int64_t> sizes) {
  const auto refuse = [&](std::string_view why) {
    throw DeviceError("KB-M012", "shape [{}]: {}", fmt::join(sizes, ", "), why);
  };
  if (sizes.size() > kMaxRank) refuse(fmt::format("more than {} dimensions", kMaxRank));
  for (const std::int64_t size : sizes) {
    if (size < 0) {
      throw DeviceError("KB-M012", "Trying to create tensor with negative dimension {}: [{}]", size,
                        fmt::join(sizes, ", "));
    }
    sizes_[rank_++] = size;
  }
  for (const std::int64_t size : sizes) {
    if (__builtin_mul_overflow(numel_, size, &numel_) || numel_ > kMostElements) {
      refuse("the number of elements overflows");
    }
  }
}

void Shape::throw_no_dimension(std::size_t dimension) const {
  throw DeviceError("KB-M017", "shape {} has no dimension {}", to_string(*this), dimension);
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace kernbench
