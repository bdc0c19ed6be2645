// x[i]: a view of a row, or of an element of a vector.

#include <fmt/format.h>

#include "runtime/distributed/local_backend.h"
#include "runtime/torch/run_ranks.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::row_test {
namespace {

std::vector<DPPolicy> placements() {
  return {DPPolicy::on_one_pe(),   DPPolicy{},         on_pes(kRow),          on_pes(kColumn),
          on_pes(kPartial),        on_cubes(kRow),     on_cubes(kColumn),     on_all(kR, kRow),
          on_all(kRow, kColumn),   on_all(kRow, kRow), on_all(kColumn, kRow), on_cubes(kPartial),
          on_all(kColumn, kColumn)};
}

TEST_CASE("x[i] reads row i of a matrix, and x[i][j] its element j", "[row]") {
  OperatorsUnderTest dut;
  const Floats elements = small_integers(5 * 4, 1);
  for (const DPPolicy& dp : placements()) {
    CAPTURE(to_string(dp));
    const Tensor x = dut.tensor({5, 4}, elements, dp, DType::f32, "x");
    for (std::int64_t i = 0; i < 5; ++i) {
      const Floats row(elements.begin() + 4 * i, elements.begin() + 4 * i + 4);
      CHECK(x[i].shape() == Shape{4});
      CHECK(x[i].to_vector() == row);
      CHECK(x[i - 5].to_vector() == row);
      for (std::int64_t j = 0; j < 4; ++j) {
        CHECK(x[i][j].item() == row[static_cast<std::size_t>(j)]);
        CHECK(x[i].at({j}) == row[static_cast<std::size_t>(j)]);
      }
    }
  }
}

TEST_CASE("what is written into x[i] is written into x, and the reverse", "[row]") {
  OperatorsUnderTest dut;
  for (const DPPolicy& dp : placements()) {
    CAPTURE(to_string(dp));
    Tensor x = dut.tensor({3, 2}, {1, 2, 3, 4, 5, 6}, dp);
    Tensor row = x[1];
    row.copy_(RuntimeContext::tensor({7, 8}, {2}));
    CHECK(x.to_vector() == Floats{1, 2, 7, 8, 5, 6});
    x[2][1].copy_(RuntimeContext::tensor({9}, {}));
    CHECK(x.to_vector() == Floats{1, 2, 7, 8, 5, 9});
    x.copy_(RuntimeContext::tensor({6, 5, 4, 3, 2, 1}, {3, 2}));
    CHECK(row.to_vector() == Floats{4, 3});
  }
}

TEST_CASE("rows of a host tensor are views too", "[row]") {
  const Tensor x = RuntimeContext::tensor({1, 2, 3, 4}, {2, 2});
  Tensor row = x[1];
  CHECK(row.is_host());
  CHECK(row.to_vector() == Floats{3, 4});
  row.copy_(RuntimeContext::tensor({7, 8}, {2}));
  CHECK(x.to_vector() == Floats{1, 2, 7, 8});
  CHECK(x[0][1].item() == 2);
}

TEST_CASE("x[i] prints itself", "[row]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4}, on_pes(kRow));
  CHECK(fmt::format("{}", x[1]) == "tensor([3, 4], dtype=f32)");
  CHECK(fmt::format("{}", x[1][0]) == "tensor(3, dtype=f32)");
}

TEST_CASE("an index that is not there is refused in PyTorch's words", "[row]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4}, DPPolicy::on_one_pe(), DType::f32, "x");
  CHECK_THAT(error([&] { x[2]; }),
             Says("KB-M017", "index 2 is out of bounds for dimension 0 with size 2"));
  CHECK_THAT(error([&] { x[-3]; }), Says("KB-M017", "index -3 is out of bounds for dimension 0"));
  CHECK_THAT(error([&] { x[0][0][0]; }),
             Says("KB-M017", "invalid index of a 0-dim tensor", "'x' is []", "item()"));
  CHECK_THAT(error([&] { RuntimeContext::tensor({1}, {1})[1]; }), Says("KB-M017", "index 1"));
}

TEST_CASE("operators, kernels and gradients of a row", "[row]") {
  OperatorsUnderTest dut;
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), DPPolicy{}, on_pes(kColumn), on_cubes(kR)}) {
    CAPTURE(to_string(dp));
    Tensor x = dut.tensor({3, 2}, {1, 2, 3, 4, 5, 6}, dp).requires_grad_();
    sum(x[1] * x[1] + x[2]).backward();
    CHECK(x.grad().to_vector() == Floats{0, 0, 6, 8, 1, 1});
  }
  const Tensor x = dut.tensor({3, 2}, {1, 2, 3, 4, 5, 6}, DPPolicy::on_one_pe());
  dut.torch.launch(
      "double",
      [](tl::Context& tl, tl::Pointer row) { tl.store(row, tl.load(row, {2}, DType::f32) * 2); },
      x[1]);
  CHECK(x.to_vector() == Floats{1, 2, 6, 8, 5, 6});
  CHECK_THAT(error([&] {
               dut.torch.launch(
                   "beyond",
                   [](tl::Context& tl, tl::Pointer row) { tl.load(row, {3}, DType::f32); }, x[1]);
               dut.torch.ahbm.synchronize();
             }),
             Says("KB-M020",
                  "tl.load in kernel 'beyond' on sip0.cube0.pe0 out of bounds: elements 0..2 of "
                  "tensor"));
}

TEST_CASE("a row where the first dimension is cut lies on its holder alone", "[row]") {
  OperatorsUnderTest dut;
  Tensor x = dut.tensor({4}, {1, 2, 3, 4}, on_pes(kColumn), DType::f32, "x").requires_grad_();
  REQUIRE(x[3].shards().size() == 1);
  CHECK(x[3].shards().front().pe == 1);
  CHECK(x[3].item() == 4);
  SECTION("a gradient flows from it") {
    Tensor b = dut.torch.zeros({}, {.dp = DPPolicy::on_one_pe()});
    b.copy_(x[3]);
    (b * 5).backward();
    CHECK(x.grad().to_vector() == Floats{0, 0, 0, 5});
  }
  SECTION("and back from it alone") {
    x[2].backward();
    CHECK(x.grad().to_vector() == Floats{0, 0, 1, 0});
  }
  SECTION("operators refuse it, with what to do") {
    CHECK_THAT(error([&] { x[3] + x[3]; }), Says("KB-F003", "add", "'x' []"));
    CHECK_THAT(error([&] { x[3] * 2; }),
               Says("KB-F003",
                    "lies on sip0.cube0.pe1 alone: copy_ it into a tensor of "
                    "its own first"));
    CHECK(x[0].shards().front().pe == 0);
    CHECK((x[0] * 2).item() == 2);
  }
}

TEST_CASE("collectives take rows of a replicated tensor, and no others", "[row]") {
  distributed::register_local_backend();
  OperatorsUnderTest dut;
  dut.torch.distributed.init_process_group("local");
  run_on_devices(dut.torch, 2, [&](int rank) {
    const Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4});
    dut.torch.distributed.all_reduce(x[1]);
    CHECK(x.to_vector() == Floats{1, 2, 6, 8});
    const Tensor cut = dut.tensor({2, 2}, {1, 2, 3, 4}, on_pes(kRow), DType::f32, "cut");
    CHECK_THROWS_MATCHES(
        dut.torch.distributed.all_reduce(cut[1]), CollectiveError,
        Says("KB-C013", "'cut' [2] f32", fmt::format("device {}", rank), "copy_ it"));
    const Tensor partial = dut.tensor({2, 2}, {1, 2, 3, 4}, on_pes(kPartial));
    CHECK_THAT(error_of<CollectiveError>([&] { dut.torch.distributed.all_reduce(partial[1]); }),
               Says("KB-C013", "whose holders have summands"));
  });
}

}  // namespace
}  // namespace kernbench::test::row_test
