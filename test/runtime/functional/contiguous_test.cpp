// Which views are contiguous, as in torch: strides of dimensions of size 1 do not count.

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::contiguous_test {
namespace {

TEST_CASE("the strides of dimensions of size 1 do not count", "[strided]") {
  OperatorsUnderTest dut;
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), DPPolicy{}}) {
    const Tensor x = dut.tensor({3, 4}, small_integers(12, 1), dp);
    const Tensor row = x.t().narrow(1, 1, 1);  // {4, 1} of strides 1 and 4
    CHECK(row.is_contiguous());
    CHECK(row.to_vector() == x[1].to_vector());
    const Tensor one = x.narrow(1, 2, 1).slice(0, 1, 3, 2);
    CHECK(one.is_contiguous());
    CHECK(one.item() == x.at({1, 2}));
    CHECK_FALSE(x.narrow(1, 2, 1).is_contiguous());
    CHECK_FALSE(x.t().narrow(1, 1, 2).is_contiguous());
    one.fill_(9);
    row.mul_(2);
    Floats expected = small_integers(12, 1);
    expected[6] = 9;
    for (std::size_t i : {4, 5, 6, 7}) expected[i] *= 2;
    CHECK(x.to_vector() == expected);
  }
  const Tensor vector = dut.tensor({3}, {1, 2, 3}).slice(0, 2, 3, 2);
  CHECK(vector.is_contiguous());
  CHECK(vector.to_vector() == Floats{3});
}

}  // namespace
}  // namespace kernbench::test::contiguous_test
