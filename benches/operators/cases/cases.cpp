#include "benches/operators/cases/cases.h"

namespace kernbench::benches::operators {

std::vector<std::unique_ptr<OperatorCase>> shipped_cases() {
  std::vector<std::unique_ptr<OperatorCase>> cases;
  for (const auto make : {make_rms}) cases.push_back(make());
  return cases;
}

}  // namespace kernbench::benches::operators
