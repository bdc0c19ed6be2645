// The shipped cases, one file each.

#pragma once

#include <memory>

#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

std::unique_ptr<OperatorCase> make_add_rms();
std::unique_ptr<OperatorCase> make_grouped_mul_poly();
std::unique_ptr<OperatorCase> make_mul_poly();
std::unique_ptr<OperatorCase> make_poly();
std::unique_ptr<OperatorCase> make_rms();

// Registers all of them.  Throws UsageError KB-U006 if a case of the program's own has such a name.
bool register_shipped_cases();

}  // namespace kernbench::benches::operators
