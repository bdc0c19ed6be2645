// Host reads convert elements to types of the host here.

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

// Instantiates it for the arithmetic types.
template std::vector<bool> Tensor::converted(Read, std::size_t) const;
template std::vector<signed char> Tensor::converted(Read, std::size_t) const;
template std::vector<unsigned char> Tensor::converted(Read, std::size_t) const;
template std::vector<short> Tensor::converted(Read, std::size_t) const;
template std::vector<unsigned short> Tensor::converted(Read, std::size_t) const;
template std::vector<int> Tensor::converted(Read, std::size_t) const;
template std::vector<unsigned> Tensor::converted(Read, std::size_t) const;
template std::vector<long> Tensor::converted(Read, std::size_t) const;
template std::vector<unsigned long> Tensor::converted(Read, std::size_t) const;
template std::vector<long long> Tensor::converted(Read, std::size_t) const;
template std::vector<unsigned long long> Tensor::converted(Read, std::size_t) const;
template std::vector<float> Tensor::converted(Read, std::size_t) const;
template std::vector<double> Tensor::converted(Read, std::size_t) const;

}  // namespace kernbench
