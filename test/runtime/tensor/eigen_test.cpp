#include <Eigen/Core>
#include <catch2/catch.hpp>

#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::eigen_test {
namespace {

TEST_CASE("a matrix of Eigen goes to the device and comes back", "[tensor][eigen]") {
  RuntimeContext torch(round_topology());
  Eigen::MatrixXf matrix(2, 3);  // column by column in memory
  matrix << 1, 2, 3, 4, 5, 6;
  Tensor x = torch.zeros({2, 3}, {.dp = {.pe = Shard::column_wise}});
  x.copy_(RuntimeContext::from_eigen(matrix));
  CHECK(x.to_vector() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(x.to_eigen() == matrix);
  CHECK(x.to_eigen<double>()(1, 0) == 4.0);
}

TEST_CASE("an expression of Eigen makes a tensor", "[tensor][eigen]") {
  const Eigen::Matrix2f matrix{{1, 2}, {3, 4}};
  CHECK(RuntimeContext::from_eigen(matrix.transpose() * 2).to_vector() ==
        std::vector<float>{2, 6, 4, 8});
}

TEST_CASE("only a matrix becomes a matrix of Eigen", "[tensor][eigen]") {
  RuntimeContext torch(round_topology());
  const Tensor x = torch.zeros({2, 3, 1}, {.name = "x"});
  CHECK_THROWS_MATCHES(x.to_eigen(), DeviceError, Says("KB-M015", "to_eigen", "'x'", "[2, 3, 1]"));
}

}  // namespace
}  // namespace kernbench::test::eigen_test
