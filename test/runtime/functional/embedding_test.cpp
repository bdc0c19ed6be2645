#include "runtime/functional/functional.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::embedding_test {
namespace {

namespace F = nn::functional;

Floats indices_of(std::int64_t count, std::int64_t rows) {
  Floats indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(static_cast<float>(i * 7 % rows));
  return indices;
}

struct Case {
  Shard indices;
  Shard table;
  Shard rows;
};

TEST_CASE("embedding looks rows up, and adds gradients up there", "[embedding]") {
  const auto [of_indices, of_table, of_rows] = GENERATE(
      Case{kR, kR, kR}, Case{kR, kColumn, kColumn}, Case{kR, kRow, kPartial}, Case{kRow, kR, kRow});
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = GENERATE(4096, 1 << 21);
  OperatorsUnderTest dut(topology);
  const DType dtype = GENERATE(DType::f32, DType::f16);
  constexpr std::int64_t kRows = 31;
  constexpr std::int64_t kWidth = 5;
  for (const Shape& shape : {Shape{10}, Shape{4, 3}, Shape{1}, Shape{0}}) {
    const Floats indices = indices_of(shape.numel(), kRows);
    const Tensor table = dut.leaf({kRows, kWidth}, 1, on_pes(of_table), dtype);
    const Tensor rows = F::embedding(dut.tensor(shape, indices, on_pes(of_indices)), table);
    CHECK(rows.dtype() == dtype);
    CHECK(rows.shape().numel() == shape.numel() * kWidth);
    CHECK(rows.dp().pe == of_rows);
    const Floats of_dy = small_integers(rows.numel(), 2);
    rows.backward(dut.tensor(rows.shape(), of_dy, gradient_policy(on_pes(of_rows)), dtype));
    const Floats elements = table.to_vector();
    Floats expected;
    Floats gradient(elements.size(), 0);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      for (std::size_t j = 0; j < kWidth; ++j) {
        const std::size_t at = static_cast<std::size_t>(indices[i]) * kWidth + j;
        expected.push_back(elements[at]);
        gradient[at] += of_dy[i * kWidth + j];
      }
    }
    CHECK(rows.to_vector() == expected);
    CHECK(table.grad().to_vector() == gradient);
    CHECK(table.grad().dp().pe == (of_indices == kRow ? kPartial : of_table));
  }
}

TEST_CASE("a part of a vocabulary gives zeros for the others' rows", "[embedding]") {
  OperatorsUnderTest dut;
  const Tensor table = dut.tensor({2, 1}, {5, 6}, on_pes(kRow)).requires_grad_();
  const Tensor indices = dut.tensor({5}, {9, 10, 11, 12, 0}, on_pes(kR));
  const Tensor rows = F::embedding(indices, table, {.first_index = 10});
  CHECK(rows.to_vector() == Floats{0, 5, 6, 0, 0});
  rows.backward(dut.tensor({5, 1}, {1, 2, 3, 4, 5}, on_pes(kR)));
  CHECK(table.grad().to_vector() == Floats{2, 3});
}

struct LookedUp {
  Floats rows;
  Floats gradient;
  friend bool operator==(const LookedUp&, const LookedUp&) = default;
};

TEST_CASE("a shared table gives the rows and the gradient of one PE", "[embedding][shared]") {
  const std::int64_t tokens = GENERATE(0, 1, 4, 12, 50, 20000);
  const std::int64_t table_rows = GENERATE(1, 5, 31);
  Topology topology = six_pe_topology();
  topology.pe.tcm.capacity = GENERATE(4096, 1 << 21);
  OperatorsUnderTest dut(topology);
  const auto run = [&](const DPPolicy& of_indices, const DPPolicy& of_table) {
    const Tensor table = dut.leaf({table_rows, 3}, 1, of_table);
    const Tensor indices = dut.tensor({tokens}, indices_of(tokens, table_rows), of_indices);
    const Tensor rows = F::embedding(indices, table);
    CHECK(rows.dp() == of_indices);
    rows.backward(dut.tensor({tokens, 3}, small_integers(3 * tokens, 2), of_indices));
    CHECK(table.grad().dp() == of_table);
    return LookedUp{rows.to_vector(), table.grad().to_vector()};
  };
  const LookedUp alone = run(DPPolicy::on_one_pe(), DPPolicy::on_one_pe());
  CHECK(run(on_all(kRow, kRow), DPPolicy::shared(3, 2)) == alone);
  CHECK(run(on_all(kR, kR), DPPolicy::shared(3, 2)) == alone);
}

// 4 rows of 64 B from HBM, the indices before them, and the store: no row of the table more.
TEST_CASE("a lookup moves the rows that it finds, not the table", "[embedding][timing]") {
  const auto loaded = [](std::int64_t table_rows) {
    OperatorsUnderTest dut;
    const Tensor table = dut.tensor({table_rows, 16}, Floats(16 * table_rows, 1));
    F::embedding(dut.tensor({4}, {0, 0, 0, 0}), table);
    dut.torch.ahbm.synchronize();
    return dut.torch.engine().last_results().back().loaded;
  };
  CHECK(loaded(8) == 4 * 4 + 4 * 64);
  CHECK(loaded(1000) == loaded(8));
}

TEST_CASE("embedding refuses what it cannot use", "[embedding]") {
  OperatorsUnderTest dut;
  const auto error = [&](const Tensor& indices, const Tensor& table) {
    return error_of<DeviceError>([&] { F::embedding(indices, table); });
  };
  const Tensor table = dut.leaf({4, 2}, 1, on_pes(kR));
  CHECK_THAT(error(dut.leaf({2}, 1, on_pes(kR)), dut.leaf({4}, 1, on_pes(kR))),
             Says("KB-F001", "'weight' must be 2-D"));
  CHECK_THAT(error(dut.leaf({2}, 1, on_pes(kR), DType::f16), table), Says("KB-F002"));
  CHECK_THAT(error(dut.leaf({2}, 1, on_pes(kRow)), dut.leaf({4, 2}, 1, on_pes(kRow))),
             Says("KB-F003"));
  CHECK_THAT(error(dut.leaf({2, 2}, 1, on_pes(kColumn)), table), Says("KB-F003"));
  CHECK_THAT(error(dut.leaf({2}, 1, on_pes(kPartial)), table), Says("KB-F003"));
}

}  // namespace
}  // namespace kernbench::test::embedding_test
