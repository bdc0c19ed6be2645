#include "test/benches/tensor_parallel/oracle/dense_arithmetic.h"

namespace kernbench::benches::tensor_parallel {

RowMajor<float> product(const RowMajor<float>& a, const RowMajor<float>& b) {
  return a * b;
}
RowMajor<double> product(const RowMajor<double>& a, const RowMajor<double>& b) {
  return a * b;
}

RowMajor<float> transposed(const RowMajor<float>& x) {
  return x.transpose();
}
RowMajor<double> transposed(const RowMajor<double>& x) {
  return x.transpose();
}

}  // namespace kernbench::benches::tensor_parallel
