// The shipped cases, one file each.

#pragma once

#include <memory>
#include <vector>

#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

std::unique_ptr<OperatorCase> make_add_rms();
std::unique_ptr<OperatorCase> make_grouped_mul_poly();
std::unique_ptr<OperatorCase> make_mul_poly();
std::unique_ptr<OperatorCase> make_poly();
std::unique_ptr<OperatorCase> make_rms();

std::vector<std::unique_ptr<OperatorCase>> shipped_cases();

}  // namespace kernbench::benches::operators
