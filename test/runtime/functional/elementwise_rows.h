// The table of elementwise operators: what each computes, as a function of doubles, and of which
// types.

#pragma once

#include <array>
#include <string>
#include <vector>

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test {

// The type of what an operator makes of operands of one type.
enum class Gives : std::uint8_t { same, f32, i64, boolean, refused };

struct ElementwiseRow {
  using Reals = std::array<double, 3>;

  std::string name;
  int operands;
  std::function<Tensor(const std::vector<Tensor>&)> of;
  std::function<double(const Reals&)> reference;
  int steps;  // roundings in f32, of the forward or the backward function, whichever has more
  bool has_gradient = true;  // else it gives bool
  double least = -2;         // of the operands
  Gives integers = Gives::f32;
  Gives booleans = Gives::f32;
  Gives floats8 = Gives::refused;
};

std::vector<ElementwiseRow> functions_of_one();
std::vector<ElementwiseRow> functions_of_two();

}  // namespace kernbench::test
