#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace kernbench {

// The size of each dimension of a tensor, outermost first.
class Shape {
 public:
  Shape() = default;  // a scalar's
  // Throws DeviceError KB-M012 for a negative size, or if the number of elements overflows.
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::vector<std::int64_t> sizes);

  std::size_t rank() const { return sizes_.size(); }
  std::int64_t operator[](std::size_t dimension) const { return sizes_.at(dimension); }
  auto begin() const { return sizes_.begin(); }
  auto end() const { return sizes_.end(); }

  // The number of elements.
  std::int64_t numel() const { return numel_; }

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<std::int64_t> sizes_;
  std::int64_t numel_ = 1;
};

// "[1, 64]"
std::string to_string(const Shape& shape);

}  // namespace kernbench
