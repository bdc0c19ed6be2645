#include "benches/operators/cases/cases.h"

namespace kernbench::benches::operators {

std::vector<std::unique_ptr<OperatorCase>> shipped_cases() {
  std::vector<std::unique_ptr<OperatorCase>> cases;
  for (const auto make : {make_rms, make_add_rms, make_poly, make_mul_poly, make_grouped_mul_poly})
    cases.push_back(make());
  return cases;
}

}  // namespace kernbench::benches::operators
