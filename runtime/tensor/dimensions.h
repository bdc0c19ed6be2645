#pragma once

#include <initializer_list>
#include <vector>

namespace kernbench {

// The dimensions that a reduction reduces, negative ones counted from the last: `1`, `{0, -1}`, or
// none, which stands for all.
class Dimensions {
 public:
  Dimensions() = default;
  Dimensions(int dimension) : numbers_{dimension} {}
  Dimensions(std::initializer_list<int> dimensions) : numbers_(dimensions) {}

  const std::vector<int>& numbers() const { return numbers_; }

 private:
  std::vector<int> numbers_;
};

}  // namespace kernbench
