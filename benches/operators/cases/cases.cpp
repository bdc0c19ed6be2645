#include "benches/operators/cases/cases.h"

namespace kernbench::benches::operators {

bool register_shipped_cases() {
  for (const auto make : {make_rms, make_add_rms, make_poly, make_mul_poly, make_grouped_mul_poly})
    register_operator_case(make());
  return true;
}

}  // namespace kernbench::benches::operators
