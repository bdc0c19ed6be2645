#include "runtime/functional/shape_operators.h"

#include "runtime/distributed/local_backend.h"
#include "runtime/torch/run_ranks.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::shape_operators_test {
namespace {

TEST_CASE("reshape is a view: it costs nothing and shares memory", "[reshape]") {
  OperatorsUnderTest dut;
  Tensor x = dut.leaf({4, 6}, 1, on_pes(kR));
  const Time before = dut.torch.engine().now();
  Tensor y = reshape(x, {2, -1, 3});
  CHECK(dut.torch.engine().now() == before);
  CHECK(y.shape() == Shape{2, 4, 3});
  CHECK(y.to_vector() == x.to_vector());
  x.copy_(RuntimeContext::tensor(Floats(24, 7), {4, 6}));
  CHECK(y.to_vector() == Floats(24, 7));
  y.detach().copy_(RuntimeContext::tensor(Floats(24, 8), {2, 4, 3}));
  CHECK(x.to_vector() == Floats(24, 8));
  y.backward(dut.tensor({2, 4, 3}, small_integers(24, 2), on_pes(kR)));
  CHECK(x.grad().shape() == Shape{4, 6});
  CHECK(x.grad().to_vector() == small_integers(24, 2));
}

TEST_CASE("a view keeps the memory alive", "[reshape]") {
  OperatorsUnderTest dut;
  Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4});
  const Tensor y = reshape(x, {4});
  x = Tensor();
  CHECK(y.to_vector() == Floats{1, 2, 3, 4});
}

TEST_CASE("a view lies as its base does, in rows or in columns", "[reshape]") {
  struct Case {
    Shape from;
    DPPolicy dp;
    Shape to;
    Shard pe;
  };
  const Case c = GENERATE(
      Case{{4, 6}, on_pes(kRow), {4, 2, 3}, kRow},
      Case{{4, 6}, on_pes(kColumn), {2, 2, 6}, kColumn},
      Case{{2, 2, 6}, on_pes(kColumn), {4, 6}, kColumn},
      Case{{4, 2, 3}, on_pes(kRow), {8, 3}, kRow}, Case{{8}, on_pes(kColumn), {2, 4}, kRow},
      Case{{2, 4}, on_pes(kRow), {8}, kRow}, Case{{6}, on_pes(kRow), {1, 6}, kColumn},
      Case{{1, 6}, on_pes(kRow), {6, 1}, kColumn}, Case{{1, 6}, on_pes(kColumn), {6, 1}, kRow},
      Case{{4, 6}, on_pes(kPartial), {24}, kPartial}, Case{{0, 6}, on_pes(kRow), {3, 0}, kRow},
      Case{{1}, on_pes(kR), {}, kR});
  OperatorsUnderTest dut;
  INFO(to_string(c.from) << " as " << to_string(c.to));
  const Tensor x = dut.leaf(c.from, 1, c.dp);
  const Tensor y = reshape(x, c.to);
  CHECK(y.to_vector() == x.to_vector());
  CHECK(y.dp().pe == c.pe);
  for (std::size_t i = 0; i < x.shards().size(); ++i) {
    CHECK(y.shards()[i].address == x.shards()[i].address);
    CHECK(y.shard_to_vector(i) == x.shard_to_vector(i));
  }
}

TEST_CASE("the gradient of a view of one row or one column lies as the tensor does", "[reshape]") {
  struct Case {
    Shape from;
    Shape to;
  };
  const Case c =
      GENERATE(Case{{1, 1}, {1}}, Case{{1, 1}, {1, 1, 1}}, Case{{1, 4}, {4}}, Case{{1, 4}, {4, 1}},
               Case{{4, 1}, {4}}, Case{{1, 4, 1}, {4, 1}}, Case{{1, 4, 1}, {1, 4}},
               Case{{0, 1}, {0}}, Case{{1, 0}, {0}}, Case{{1}, {1, 1}});
  const Shard pe = GENERATE(kRow, kColumn);
  const Shard cube = GENERATE(kR, kRow, kColumn);
  OperatorsUnderTest dut;
  INFO(to_string(c.from) << " as " << to_string(c.to) << ", " << name_of(cube) << name_of(pe));
  const Tensor x = dut.leaf(c.from, 1, on_all(cube, pe));
  Tensor view;
  try {
    view = reshape(x, c.to);
  } catch (const DeviceError&) {
    return;  // the holders would have other elements
  }
  const Tensor y = 2 * relu(view);  // whose gradients are cut as their kernels say
  sum(y).backward();
  Floats expected;
  for (const float element : x.to_vector()) expected.push_back(element > 0 ? 2 : 0);
  CHECK(x.grad().to_vector() == expected);
}

TEST_CASE("what is partial becomes whole for all views at once", "[reshape]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({4}, {1, 2, 3, 4}, on_pes(kPartial));
  const Tensor y = reshape(x, {2, 2});
  distributed::register_local_backend();
  dut.torch.distributed.init_process_group("local");
  run_on_devices(dut.torch, 2, [&](int rank) {
    Tensor own = rank == 0 ? y : dut.torch.zeros({2, 2}, {.dp = on_pes(kPartial)});
    dut.torch.distributed.all_reduce(own);
  });
  CHECK(x.dp() == on_pes(kR));
  CHECK(y.dp() == on_pes(kR));
  CHECK(x.to_vector() == Floats{1, 2, 3, 4});
}

TEST_CASE("a reshape across PEs is refused", "[reshape]") {
  OperatorsUnderTest dut;
  const auto error = [&](const Shape& from, const DPPolicy& dp, const Shape& to) {
    return error_of<DeviceError>([&] { reshape(dut.leaf(from, 1, dp), to); });
  };
  CHECK_THAT(error({4, 6}, on_pes(kColumn), {4, 2, 3}), Says("KB-F003", "reshape"));
  CHECK_THAT(error({3, 4}, on_pes(kRow), {12}), Says("KB-F003", "reshape"));
  CHECK_THAT(error({2, 2}, on_pes(kR), {3}),
             Says("KB-F001", "shape '[3]' is invalid for input of size 4"));
  CHECK_THROWS_MATCHES(reshape(dut.leaf({4}, 1), {3, -1}), DeviceError,
                       Says("KB-F001", "shape '[3, -1]' is invalid for input of size 4"));
  CHECK_THROWS_MATCHES(reshape(dut.leaf({4}, 1), {-1, -1}), DeviceError,
                       Says("KB-F001", "only one dimension can be inferred"));
}

Floats transposed(const Floats& x, const Shape& shape, std::size_t d0, std::size_t d1) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  std::vector<std::size_t> strides(sizes.size(), 1);
  for (std::size_t d = sizes.size() - 1; d-- > 0;) {
    strides[d] = strides[d + 1] * static_cast<std::size_t>(sizes[d + 1]);
  }
  std::swap(sizes[d0], sizes[d1]);
  std::swap(strides[d0], strides[d1]);
  Floats result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::size_t rest = i;
    std::size_t position = 0;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      position += rest % static_cast<std::size_t>(sizes[d]) * strides[d];
      rest /= static_cast<std::size_t>(sizes[d]);
    }
    result.push_back(x[position]);
  }
  return result;
}

TEST_CASE("transpose exchanges two dimensions, and those of the gradient back", "[transpose]") {
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = GENERATE(2048, 1 << 21);
  OperatorsUnderTest dut(topology);
  for (const Shape& shape :
       {Shape{3, 5}, Shape{1, 4}, Shape{2, 3, 5}, Shape{4, 1, 3, 2}, Shape{2, 3, 2, 3},
        Shape{40, 30}, Shape{0, 3}, Shape{2, 3, 600}}) {  // rows that are more than all of scratch
    for (int d0 = 0; d0 < static_cast<int>(shape.rank()); ++d0) {
      for (int d1 = 0; d1 < static_cast<int>(shape.rank()); ++d1) {
        const Tensor x = dut.leaf(shape, 1);
        const Tensor y = transpose(x, d0 - static_cast<int>(shape.rank()), d1);
        const auto u0 = static_cast<std::size_t>(d0);
        const auto u1 = static_cast<std::size_t>(d1);
        CHECK(y.to_vector() == transposed(x.to_vector(), shape, u0, u1));
        const Floats dy = small_integers(shape.numel(), 2);
        y.backward(dut.tensor(y.shape(), dy));
        CHECK(x.grad().to_vector() == transposed(dy, y.shape(), u0, u1));
      }
    }
  }
}

TEST_CASE("transpose of a cut tensor is cut along the other dimension", "[transpose]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({3, 5}, 1, on_pes(kRow));
  const Tensor y = transpose(x, 0, 1);
  CHECK(y.dp() == on_pes(kColumn));
  CHECK(y.to_vector() == transposed(x.to_vector(), {3, 5}, 0, 1));
  sum(y).backward();
  CHECK(x.grad().dp() == on_pes(kRow));
  const Tensor batch = dut.leaf({4, 3, 5}, 1, on_pes(kRow));
  CHECK(transpose(batch, 1, 2).dp() == on_pes(kRow));
  CHECK_THROWS_MATCHES(transpose(batch, 0, 1), DeviceError, Says("KB-F003"));
  CHECK_THROWS_MATCHES(transpose(dut.leaf({}, 1), 0, 0), DeviceError,
                       Says("KB-F001", "Dimension specified as 0 but tensor has no dimensions"));
  CHECK_THROWS_MATCHES(
      transpose(batch, 0, 3), DeviceError,
      Says("KB-F001", "Dimension out of range (expected to be in range of [-3, 2], but got 3)"));
}

}  // namespace
}  // namespace kernbench::test::shape_operators_test
