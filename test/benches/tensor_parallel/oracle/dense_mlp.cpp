#include "test/benches/tensor_parallel/oracle/dense_arithmetic.h"
#include "test/benches/tensor_parallel/oracle/dense_step.h"

namespace kernbench::benches::tensor_parallel {

namespace {

using Matrix = RowMajor<float>;

Matrix to_matrix(const DenseMatrix& dense) {
  return Eigen::Map<const Matrix>(dense.elements.data(), dense.rows, dense.columns);
}

Expected to_expected(const Matrix& matrix) {
  return {matrix.rows(), matrix.cols(), {matrix.data(), matrix.data() + matrix.size()}};
}

}  // namespace

ExpectedStep dense_mlp_step(const DenseModel& model) {
  const Matrix x = to_matrix(model.x);
  const Matrix dy = to_matrix(model.gradient);
  const Matrix up = to_matrix(model.parameters[0]);
  const Matrix up_bias = to_matrix(model.parameters[1]);
  const Matrix down = to_matrix(model.parameters[2]);
  const Matrix down_bias = to_matrix(model.parameters[3]);

  const Matrix h = (product(x, up).rowwise() + up_bias.row(0)).cwiseMax(0.0F);
  const Matrix y = product(h, down).rowwise() + down_bias.row(0);
  const Matrix d_active = product(dy, transposed(down));
  const Matrix dh = (h.array() > 0).select(d_active, 0.0F);
  ExpectedStep step;
  step.y = to_expected(y);
  step.dx = to_expected(product(dh, transposed(up)));
  step.gradients.push_back(to_expected(product(transposed(x), dh)));
  step.gradients.push_back(to_expected(dh.colwise().sum()));
  step.gradients.push_back(to_expected(product(transposed(h), dy)));
  step.gradients.push_back(to_expected(dy.colwise().sum()));
  return step;
}

}  // namespace kernbench::benches::tensor_parallel
