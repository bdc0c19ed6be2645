// Parts of tensors.

#include "tp/slices.h"

#include <catch2/catch.hpp>

#include "runtime/functional/functional.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/parameter.h"
#include "tp/primitives.h"

namespace kernbench::test::slices_test {
namespace {

const Matrix kMatrix = Matrix::of_integers(6, 8, 20, 1);

TEST_CASE("a slice of what is replicated may be cut: each PE takes its part", "[tp][slices]") {
  TensorParallelWorld world(1, {});
  const auto on_pes = [](Shard shard) { return tp::policy_over_pes(shard, 1, 2); };
  for (const Shard to : {Shard::replicate, Shard::row_wise, Shard::column_wise}) {
    const Tensor like = world.tensor(Floats(24), {6, 4}, {.dp = on_pes(to)});
    const Tensor x = world.tensor(kMatrix, {.dp = on_pes(Shard::replicate)});
    const Tensor columns = tp::slice(x, 1, 3, 4, ops::placement_of(like));
    CHECK(columns.dp().pe == to);
    CHECK(columns.to_vector() == kMatrix.columns_from(3, 4).elements);
    const Tensor rows = tp::slice(x, 0, 1, 4, ops::placement_of(like));
    CHECK(rows.to_vector() == kMatrix.rows_from(1, 4).elements);
  }
  // The tensor is cut along dimension 0 and sliced along the other one.
  const Tensor cut = world.tensor(kMatrix, {.dp = on_pes(Shard::row_wise)});
  CHECK(tp::slice(cut, 1, 3, 4, ops::placement_of(cut)).to_vector() ==
        kMatrix.columns_from(3, 4).elements);
  CHECK_THROWS_MATCHES(tp::slice(cut, 0, 1, 4, ops::placement_of(cut)), DeviceError,
                       Says("KB-F003", "slice"));
  const Tensor block = world.tensor(kMatrix.elements, {3, 2, 8}, {.dp = on_pes(Shard::replicate)});
  CHECK(tp::slice(block, 0, 1, 2, ops::placement_of(block)).to_vector() ==
        kMatrix.rows_from(2, 4).elements);
}

TEST_CASE("split_tensor_along_last_dim: equal parts, and gradients", "[tp][slices]") {
  TensorParallelWorld world(1, {});
  Tensor x = world.tensor(Matrix::of_integers(3, 4, 9, 1));
  x.requires_grad_();
  const std::vector<Tensor> parts = tp::split_tensor_along_last_dim(x, 2);
  REQUIRE(parts.size() == 2);
  for (int i = 0; i < 2; ++i) {
    const Matrix expected = Matrix::of_integers(3, 4, 9, 1).columns_from(2 * i, 2);
    CHECK(parts[static_cast<std::size_t>(i)].to_vector() == expected.elements);
  }
  parts[1].backward(world.filled({3, 2}, 1));
  CHECK(x.grad().to_vector() == Floats{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1});
  CHECK_THROWS_MATCHES(tp::split_tensor_along_last_dim(x, 3), CollectiveError,
                       Says("KB-T001", "4 is not divisible by 3"));
}

TEST_CASE("equal chunks of all elements, and all of them again", "[tp][slices]") {
  TensorParallelWorld world(2, {.parallel = {.tensor_model_parallel_size = 2}});
  world.spawn([&](int rank) {
    const auto group = tp::get_tensor_model_parallel_group(world.torch);
    const Matrix m = Matrix::of_integers(3, 4, 9, 1);
    const Tensor chunk = tp::split_tensor_into_1d_equal_chunks(world.torch, world.tensor(m), group);
    CHECK(chunk.to_vector() ==
          Floats(m.elements.begin() + 6 * rank, m.elements.begin() + 6 * rank + 6));
    CHECK(tp::gather_split_1d_tensor(world.torch, chunk, group).to_vector() == m.elements);
    const Tensor of_rank = world.filled({2, 4}, static_cast<float>(rank));
    CHECK(tp::gather_split_1d_tensor(world.torch, of_rank, group).to_vector() ==
          Floats{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1});
  });
}

}  // namespace
}  // namespace kernbench::test::slices_test
