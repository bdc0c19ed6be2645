// The elements of an operator's inputs.  They depend only on the seed, the input and their place,
// so that any rows can be made at any time.

#pragma once

#include <cstdint>
#include <vector>

#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

class ElementSource {
 public:
  // `number` distinguishes the inputs of an operator.
  ElementSource(const InputSpec& spec, std::uint64_t seed, int number);

  // Rows [begin, begin + count), each with the input's columns, in f32 and not rounded to the type.
  std::vector<float> rows(std::int64_t begin, std::int64_t count) const;
  // The same with small rows: those of number 3, 19, 35, ... times 2^-10, so that the mean of their
  // squares is about 1e-6, as an eps is; and 7, 71, 135, ... times 0.
  std::vector<float> rows_with_small_ones(std::int64_t begin, std::int64_t count) const;

 private:
  const std::int64_t columns_;
  const float mean_;
  const float spread_;
  const std::uint64_t key_;
};

}  // namespace kernbench::benches::operators
