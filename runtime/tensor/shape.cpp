#include "runtime/tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

// So that the size in bytes of any dtype fits too.
constexpr std::int64_t kMostElements = std::int64_t{1} << 60;

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::vector<std::int64_t>(sizes)) {}

Shape::Shape(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {
  for (const std::int64_t size : sizes_) {
    if (size < 0) {
      throw DeviceError("KB-M012",
                        fmt::format("shape {}: sizes must not be negative", to_string(*this)));
    }
    if (__builtin_mul_overflow(numel_, size, &numel_) || numel_ > kMostElements) {
      throw DeviceError(
          "KB-M012", fmt::format("shape {}: the number of elements overflows", to_string(*this)));
    }
  }
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace kernbench
