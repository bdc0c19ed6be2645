// redistribute(): the same elements with another placement.

#include "runtime/ops/placement.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::redistribute_test {
namespace {

std::vector<DPPolicy> whole_placements() {
  return {DPPolicy::on_one_pe(), DPPolicy{},      on_pes(kRow),          on_pes(kColumn),
          on_cubes(kRow),        on_cubes(kR),    on_all(kRow, kColumn), on_all(kColumn, kRow),
          on_all(kR, kColumn),   on_all(kRow, kR)};
}

TEST_CASE("a tensor has its elements wherever it goes, and its gradient comes back",
          "[redistribute]") {
  OperatorsUnderTest dut;
  for (const Shape& shape : {Shape{5, 7}, Shape{3, 2, 5}, Shape{4}, Shape{}}) {
    for (const DPPolicy& from : whole_placements()) {
      for (const DPPolicy& to : whole_placements()) {
        CAPTURE(to_string(shape), to_string(from), to_string(to));
        const Tensor x = dut.leaf(shape, 1, from);
        const Tensor y = x.redistribute(to);
        CHECK(ops::placement_of(y) == ops::placement_of(x, to));
        CHECK(y.to_vector() == x.to_vector());
        const Floats dy = small_integers(shape.numel(), 2);
        y.backward(dut.tensor(shape, dy, to));
        CHECK(ops::placement_of(x.grad()) == ops::placement_of(x));
        CHECK(x.grad().to_vector() == dy);
      }
    }
  }
}

TEST_CASE("of copies each PE reads the nearest", "[redistribute][timing]") {
  const auto time_from = [](const DPPolicy& from) {
    OperatorsUnderTest dut;
    const Tensor x = dut.tensor({12, 64}, small_integers(12 * 64, 1), from);
    const Time start = dut.torch.engine().now();
    CHECK(x.redistribute(on_all(kRow, kRow)).to_vector() == x.to_vector());
    return dut.torch.engine().now() - start;
  };
  // Nobody has to ask another cube, and then nobody another PE.
  CHECK(time_from(on_cubes(kR)) < time_from(DPPolicy::on_one_pe()));
  CHECK(time_from(DPPolicy{}) < time_from(on_cubes(kR)));
}

TEST_CASE("summands are added up on the way", "[redistribute]") {
  OperatorsUnderTest dut;
  const DType dtype = GENERATE(DType::f16, DType::i64);
  const Tensor x = dut.tensor({2, 3}, small_integers(6, 3), on_pes(kPartial), dtype);
  for (const DPPolicy& to : whole_placements()) {
    const Tensor y = redistribute(x, to);
    CHECK_FALSE(ops::placement_of(y).is_partial());
    CHECK(y.to_vector() == small_integers(6, 3));
    for (const ShardInfo& shard : y.shards()) CHECK(shard.shape.numel() <= 6);
  }
  CHECK_THAT(error([&] { redistribute(x, on_cubes(kPartial)); }),
             Says("KB-F003", "nobody can say what summands each holder should have"));
}

}  // namespace
}  // namespace kernbench::test::redistribute_test
