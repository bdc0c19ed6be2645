#include "runtime/functional/operators.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::functional_reductions_test {
namespace {

TEST_CASE("sum adds all elements, and each gets its gradient", "[reductions]") {
  OperatorsUnderTest dut;
  const Shard pe = GENERATE(Shard::replicate, Shard::row_wise, Shard::column_wise, Shard::partial);
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{0}, Shape{3, 5}, Shape{2, 3, 4}, Shape{3, 9001}}) {
    const Tensor x = dut.leaf(shape, 1, on_pes(pe));
    float expected = 0;
    for (const float element : x.to_vector()) expected += element;
    const Tensor total = sum(x);
    CHECK(total.shape() == Shape{});
    CHECK(total.item() == expected);
    const bool is_whole = pe == Shard::replicate || (shape.rank() == 0 && pe != Shard::partial);
    CHECK(total.dp().pe == (is_whole ? Shard::replicate : Shard::partial));
    total.backward();
    CHECK(x.grad().to_vector() == Floats(static_cast<std::size_t>(shape.numel()), 1));
    const bool gets_whole = is_whole || pe == Shard::partial;
    const Shard same = shape.rank() == 1 ? Shard::column_wise : pe;  // of a vector rows are, too
    CHECK(x.grad().dp().pe == (gets_whole ? Shard::replicate : same));
  }
}

TEST_CASE("a sum of f16 is added in f32", "[reductions]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.torch.ones({4099}, {.dtype = DType::f16, .dp = DPPolicy::on_one_pe()});
  CHECK(sum(x).item() == 4100);  // 4099 is none; in f16 it would have stopped at 2048
}

}  // namespace
}  // namespace kernbench::test::functional_reductions_test
