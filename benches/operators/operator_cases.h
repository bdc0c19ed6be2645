// The operator cases that the program knows.

#pragma once

#include <memory>

#include "benches/bench/registry.h"
#include "benches/operators/operator_case.h"

namespace kernbench::benches::operators {

const Registry<std::unique_ptr<OperatorCase>>& operator_cases();

}  // namespace kernbench::benches::operators
