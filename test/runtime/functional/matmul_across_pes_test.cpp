// Products whose PEs read a matrix that lies once on the device (DPPolicy::shared()).

#include "runtime/functional/operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/tensor/describe.h"
#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::matmul_across_pes_test {
namespace {

const DPPolicy kShared = DPPolicy::shared(3, 2);
const DPPolicy kRows = on_all(kRow, kRow);
const DPPolicy kCopies = on_all(kR, kR);

// y = op(w) of x, and what flows back.
struct Values {
  Floats y;
  Floats dx;
  Floats dw;
  Floats db;

  friend bool operator==(const Values&, const Values&) = default;
};

struct Sizes {
  std::int64_t tokens;
  std::int64_t in;
  std::int64_t out;
};

Values run_linear(OperatorsUnderTest& dut, const Sizes& size, DType dtype, const DPPolicy& samples,
                  const DPPolicy& weights) {
  const Tensor x = dut.leaf({size.tokens, size.in}, 1, samples, dtype);
  const Tensor w = dut.leaf({size.out, size.in}, 2, weights, dtype);
  const Tensor b = dut.leaf({size.out}, 3, weights, dtype);
  const Tensor y = nn::functional::linear(x, w, b);
  CHECK(y.dp() == samples);
  const Floats dy = small_integers(y.numel(), 4);
  y.backward(dut.tensor(y.shape(), dy, samples, dtype));
  CHECK(w.grad().dp() == w.dp());
  CHECK(x.grad().dp() == samples);
  return {y.to_vector(), x.grad().to_vector(), w.grad().to_vector(), b.grad().to_vector()};
}

TEST_CASE("a shared weight gives the values and gradients of one PE", "[matmul][shared]") {
  const DType dtype = GENERATE(DType::f32, DType::f16, DType::bf16);
  const Sizes size = GENERATE(Sizes{1, 1, 1}, Sizes{4, 7, 3}, Sizes{12, 5, 31}, Sizes{33, 65, 31},
                              Sizes{200, 33, 70}, Sizes{64, 2, 257});
  const bool has_copies_of_samples = GENERATE(false, true);
  INFO(name_of(dtype) << " " << size.tokens << " x " << size.in << " x " << size.out);
  OperatorsUnderTest dut;
  const DPPolicy one = DPPolicy::on_one_pe();
  const Values alone = run_linear(dut, size, dtype, one, one);
  CHECK(run_linear(dut, size, dtype, has_copies_of_samples ? kCopies : kRows, kShared) == alone);
}

TEST_CASE("a shared matrix may be turned, scaled, and multiplied by another", "[matmul][shared]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({9, 14}, 1, kRows);
  const Tensor w = dut.leaf({11, 14}, 2, kShared);
  const Tensor v = dut.leaf({11, 14}, 3, kShared);
  const Tensor exact = matmul(dut.leaf({9, 14}, 1), dut.leaf({11, 14}, 2), {.transpose_b = true});
  CHECK(matmul(x, w.t()).to_vector() == exact.to_vector());
  CHECK(matmul(x, w, {.transpose_b = true, .alpha = 2}).to_vector() == (exact * 2.0).to_vector());
  CHECK(matmul(w, v, {.transpose_b = true}).to_vector() ==
        matmul(dut.leaf({11, 14}, 2), dut.leaf({11, 14}, 3), {.transpose_b = true}).to_vector());
  sum(matmul(x, w.t())).backward();
  CHECK(w.grad().dp() == kShared);
}

TEST_CASE("rows of samples may have more than one dimension", "[matmul][shared]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({7, 3, 5}, 1, kRows);
  const Tensor w = dut.leaf({5, 4}, 2, kShared);
  const Tensor y = matmul(x, w);
  const Tensor same_w = dut.leaf({5, 4}, 2);
  const Tensor one = matmul(dut.leaf({21, 5}, 1), same_w);
  CHECK(y.to_vector() == one.to_vector());
  const Floats dy = small_integers(y.numel(), 3);
  y.backward(dut.tensor(y.shape(), dy, kRows));
  one.backward(dut.tensor({21, 4}, dy));
  CHECK(w.grad().to_vector() == same_w.grad().to_vector());
}

TEST_CASE("what is computed from shared matrices alone is shared", "[matmul][shared]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.leaf({11, 14}, 2, kShared);
  CHECK(w.dp() == kShared);
  CHECK((w + w).dp() == kShared);
  CHECK((w * 2.0).dp() == kShared);
  CHECK(w.to(DType::f16).dp() == kShared);
  CHECK(sum(w).dp() == on_all(kPartial, kPartial));
  const Tensor flat = ops::make_like(w, "flat", {154}, DType::f32, ops::placement_of(w));
  CHECK(flat.shards().front().shape == Shape{26});
}

TEST_CASE("a shared policy gives each PE a copy of what is no matrix", "[matmul][shared]") {
  OperatorsUnderTest dut;
  CHECK(dut.leaf({11}, 1, kShared).dp() == kCopies);
  CHECK(dut.leaf({2, 3, 4}, 1, kShared).dp() == kCopies);
  CHECK(dut.leaf({4, 3}, 1, DPPolicy::shared(1, 1)).shards().size() == 1);
  CHECK(to_string(kShared) == "cube=row_wise, pe=row_wise, num_cubes=3, num_pes=2, is_shared");
  CHECK_THAT(runtime::words_for(kShared), Catch::Contains(".is_shared = true}"));
}

TEST_CASE("a shared weight is read from HBM once", "[matmul][shared]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.leaf({96, 64}, 1, kRows);
  const Tensor w = dut.leaf({64, 32}, 2, kShared);
  dut.torch.ahbm.synchronize();
  const Bytes before = dut.torch.engine().hbm_bytes_loaded();
  const Tensor y = matmul(x, w);
  dut.torch.ahbm.synchronize();
  CHECK(dut.torch.engine().hbm_bytes_loaded() - before == (96 * 64 + 64 * 32) * 4);
}

TEST_CASE("what a shared matrix cannot be multiplied with is refused", "[matmul][shared]") {
  OperatorsUnderTest dut;
  const Tensor w = dut.leaf({6, 6}, 2, kShared);
  CHECK_THAT(error([&] {
               matmul(dut.leaf({6, 2, 6}, 1, kRows), w.unsqueeze(0));
             }),
             Catch::Contains("KB-F003"));
  CHECK_THAT(error([&] {
               matmul(dut.leaf({4, 6}, 1, on_all(kColumn, kR)), w);
             }),
             Catch::Contains("KB-F003"));
  // Columns of x, which are rows of its memory, are cut within; one PE has a single row.
  const Tensor turned = dut.leaf({6, 7}, 1, on_all(kColumn, kColumn)).t();
  CHECK_THAT(error([&] { matmul(turned, w); }), Catch::Contains("these are cut within"));
  CHECK_THAT(error([&] { matmul(dut.leaf({4, 6}, 1), w); }), Catch::Contains("KB-F003"));
}

}  // namespace
}  // namespace kernbench::test::matmul_across_pes_test
