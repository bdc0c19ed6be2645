#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace kernbench {

// The size of each dimension of a tensor, outermost first.  Sizes are stored in place: kernels
// make shapes all the time, and must not allocate.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;

  Shape() = default;  // the shape of a scalar
  // Throws DeviceError KB-M012 for a negative size, if the number of elements overflows, or for
  // more than kMaxRank dimensions.
  Shape(std::initializer_list<std::int64_t> sizes)
      : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes);

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t dimension) const {
    return sizes_[check_dimension(dimension)];
  }
  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  std::span<const std::int64_t> sizes() const { return {sizes_.data(), rank_}; }

  // The number of elements.
  std::int64_t numel() const { return numel_; }

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  // Throws DeviceError KB-M017 if there is no such dimension.
  std::size_t check_dimension(std::size_t dimension) const {
    if (dimension >= rank_) [[unlikely]]
      throw_no_dimension(dimension);
    return dimension;
  }
  [[noreturn]] void throw_no_dimension(std::size_t dimension) const;

  std::array<std::int64_t, kMaxRank> sizes_{};
  std::size_t rank_ = 0;
  std::int64_t numel_ = 1;
};

// "[1, 64]"
std::string to_string(const Shape& shape);

}  // namespace kernbench
