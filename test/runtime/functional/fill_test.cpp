// Literals, linspace, fill_ and masked_fill: torch's conversion of a number to a type.

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::fill_test {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr DType kBool = DType::boolean;

class FillUnderTest : public OperatorsUnderTest {
 public:
  Tensor integers(const Shape& shape, const Integers& elements,
                  const DPPolicy& dp = DPPolicy::on_one_pe(), DType dtype = DType::i64) {
    return torch.tensor(std::span<const std::int64_t>(elements), shape, {.dtype = dtype, .dp = dp});
  }
  Tensor of(DType dtype) { return torch.ones({2}, {.dtype = dtype, .dp = DPPolicy::on_one_pe()}); }
};

Integers values(const Tensor& x) {
  return x.to_vector<std::int64_t>();
}

TEST_CASE("masked_fill converts its number to the tensor's type", "[dtypes]") {
  FillUnderTest dut;
  const auto filled = [&](DType dtype, const Scalar& value) {
    return masked_fill(dut.integers({2}, {0, 1}, DPPolicy::on_one_pe(), dtype),
                       dut.integers({2}, {1, 0}) == 1, value);
  };
  CHECK(values(filled(DType::i64, -2.75)) == Integers{-2, 1});
  CHECK(values(filled(DType::i32, -0x1p31)) == Integers{-(std::int64_t{1} << 31), 1});
  for (const Scalar& truth : {Scalar(0.5), Scalar(2), Scalar(NAN), Scalar(HUGE_VAL)}) {
    CHECK(filled(kBool, truth).dtype() == kBool);
    CHECK(values(filled(kBool, truth)) == Integers{1, 1});
  }
  const auto refuses = [&](DType dtype, const Scalar& value) {
    CHECK_THAT(error([&] { filled(dtype, value); }),
               Says("KB-F002", "value cannot be converted to type", "without overflow"));
  };
  const Tensor whole = dut.integers({2}, {0, 1}, DPPolicy::on_one_pe(), DType::i32);
  CHECK_THAT(error([&] { whole.fill_(3'000'000'000); }),
             Says("KB-F002", "fill_: value cannot be converted to type"));
  CHECK(values(whole.fill_(-2.75)) == Integers{-2, -2});
  refuses(DType::i64, 1e30);
  refuses(DType::i64, NAN);
  refuses(DType::i32, std::int64_t{1} << 40);
  refuses(DType::i32, 0x1p31);
}

TEST_CASE("what is filled in must fit into the type", "[dtypes]") {
  FillUnderTest dut;
  struct Row {
    DType dtype;
    double largest;
    double too_large;
  };
  for (const auto& [dtype, largest, too_large] :
       {Row{DType::f16, 65504, 65505}, Row{DType::bf16, 0x1.FEp127, 0x1.FFp127},
        Row{DType::f32, 0x1.FFFFFEp127, 1e39}, Row{DType::f8e4m3fn, 448, 449},
        Row{DType::f8e5m2, 57344, 57345}}) {
    const Tensor x = dut.of(dtype);
    const Tensor mask = dut.integers({2}, {1, 0}) == 1;
    const std::string text =
        fmt::format("value cannot be converted to type {} without overflow", torch_dtype_of(dtype));
    CHECK_THAT(error([&] { x.fill_(too_large); }), Says("KB-F002", "fill_", text));
    CHECK_THAT(error([&] { x.fill_(-too_large); }), Says("KB-F002", "fill_", text));
    CHECK(x.fill_(-largest).to_vector() == Floats(2, static_cast<float>(-largest)));
    if (is_float8(dtype)) continue;
    CHECK_THAT(error([&] { x.masked_fill_(mask, too_large); }),
               Says("KB-F002", "masked_fill_", text));
    CHECK_THAT(error([&] { x.masked_fill(mask, too_large); }),
               Says("KB-F002", "masked_fill", text));
    CHECK(x.masked_fill_(mask, HUGE_VAL).to_vector()[0] == HUGE_VALF);
  }
}

TEST_CASE("masked_fill_ is one kernel", "[dtypes]") {
  FillUnderTest dut;
  const Tensor x = dut.tensor({2}, {1, 2});
  const Tensor mask = x > 1;
  const Tensor view = dut.tensor({2, 2}, {1, 2, 3, 4}).select(1, 0);
  mask.to_vector();
  const std::size_t before = dut.torch.engine().results().size();
  x.masked_fill_(mask, 7);
  CHECK(dut.torch.engine().results().size() == before + 1);
  CHECK(x.to_vector() == Floats{1, 7});
  CHECK(view.masked_fill_(view > 2, 0).to_vector() == Floats{1, 0});
  const Tensor w = dut.leaf({2}, 1);
  const Tensor y = w * 1;
  y.masked_fill_(mask, 0).sum().backward();
  CHECK(w.grad().to_vector() == Floats{1, 0});
}

// 2^31 - 1, 2^24 + 1 and 2^53 + 1: f32 rounds all of them, f64 the last.
TEST_CASE("numbers become elements of an integral type without a way through f32", "[dtypes]") {
  FillUnderTest dut;
  const TensorOptions i64{.dtype = DType::i64};
  CHECK(values(dut.torch.tensor({2147483647, -2147483648.0}, {2}, i64)) ==
        Integers{2147483647, -2147483648});
  CHECK(values(dut.torch.tensor({16777217, 0.5, 9007199254740993}, {3}, i64)) ==
        Integers{16777217, 0, 9007199254740993});
  CHECK(values(dut.torch.tensor({2147483647.0, -1.5}, {2}, {.dtype = DType::i32})) ==
        Integers{2147483647, -1});
  CHECK(values(dut.torch.tensor({0.5, 0}, {2}, {.dtype = kBool})) == Integers{1, 0});
  CHECK(values(dut.torch.linspace(0, 16777217, 3, i64)) == Integers{0, 8388608, 16777217});
  CHECK(values(dut.torch.arange(16777217.0, 16777220.0, 1, i64)) ==
        Integers{16777217, 16777218, 16777219});
}

}  // namespace
}  // namespace kernbench::test::fill_test
