// How host reads make a type of the host of elements; runtime/tensor/tensor.h includes it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {

template <class T>
std::vector<T> Tensor::converted(Read what, std::size_t index) const {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, std::int64_t>) {
    return read<T>(what, index);
  } else if (is_integral(dtype())) {
    const std::vector<std::int64_t> elements = read<std::int64_t>(what, index);
    return {elements.begin(), elements.end()};
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    std::vector<T> numbers;
    for (const std::int64_t element : read<std::int64_t>(what, index)) {
      using Limits = std::numeric_limits<T>;
      numbers.push_back(std::in_range<T>(element) ? static_cast<T>(element)
                        : element < 0             ? Limits::min()
                                                  : Limits::max());
    }
    return numbers;
  } else {
    const std::vector<float> elements = read<float>(what, index);
    return {elements.begin(), elements.end()};
  }
}

template <class T>
Eigen::Matrix<T, -1, -1, 1, -1, -1> Tensor::to_eigen() const {
  const std::vector<T> elements = converted<T>(Read::matrix);
  Eigen::Matrix<T, -1, -1, 1, -1, -1> matrix(shape()[0], shape()[1]);
  for (std::int64_t row = 0; row < shape()[0]; ++row) {
    for (std::int64_t column = 0; column < shape()[1]; ++column) {
      matrix(row, column) = elements[static_cast<std::size_t>(row * shape()[1] + column)];
    }
  }
  return matrix;
}

}  // namespace kernbench
