// u8, i8 and i16 in operators.  Types and values are torch 1.13.1's, which wrap around.

#include <functional>
#include <sstream>

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::narrow_integers_test {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr DType kBool = DType::boolean;
constexpr DType u8 = DType::u8;
constexpr DType i8 = DType::i8;
constexpr DType i16 = DType::i16;

struct NarrowIntegers : OperatorsUnderTest {
  Tensor of(DType dtype, const Integers& elements, const DPPolicy& dp = DPPolicy::on_one_pe()) {
    return torch.tensor(std::span<const std::int64_t>(elements), {std::ssize(elements)},
                        {.dtype = dtype, .dp = dp});
  }
  Tensor u = of(u8, {0, 1, 200, 255});
  Tensor i = of(i8, {-128, -1, 1, 127});
  Tensor s = of(i16, {-32768, -1, 1, 32767});
};

Integers values(const Tensor& x) {
  return x.to_vector<std::int64_t>();
}

struct Typed {
  DType dtype;
  Integers values;
  friend bool operator==(const Typed&, const Typed&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Typed& x) {
    out << name_of(x.dtype);
    for (const std::int64_t value : x.values) out << ' ' << value;
    return out;
  }
};
Typed typed(const Tensor& x) {
  return {x.dtype(), values(x)};
}

TEST_CASE("any two types have torch.promote_types' type together", "[dtypes][narrow]") {
  NarrowIntegers dut;
  const std::vector<DType> types = {kBool,      u8,         i8,          i16,       DType::i32,
                                    DType::i64, DType::f16, DType::bf16, DType::f32};
  const std::vector<std::string> table = {
      "bool u8   i8   i16  i32  i64  f16  bf16 f32",  //
      "u8   u8   i16  i16  i32  i64  f16  bf16 f32", "i8   i16  i8   i16  i32  i64  f16  bf16 f32",
      "i16  i16  i16  i16  i32  i64  f16  bf16 f32", "i32  i32  i32  i32  i32  i64  f16  bf16 f32",
      "i64  i64  i64  i64  i64  i64  f16  bf16 f32", "f16  f16  f16  f16  f16  f16  f16  f32  f32",
      "bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32", "f32  f32  f32  f32  f32  f32  f32  f32  f32"};
  for (std::size_t row = 0; row < types.size(); ++row) {
    std::istringstream names(table[row]);
    const Tensor a = dut.of(types[row], {1, 0});
    for (const DType other : types) {
      std::string expected;
      names >> expected;
      const Tensor b = dut.of(other, {1, 1});
      CAPTURE(name_of(types[row]), name_of(other));
      CHECK(name_of((a + b).dtype()) == expected);
      CHECK(name_of(cat({a, b}).dtype()) == expected);
      CHECK(cat({a, b}).to_vector() == Floats{1, 0, 1, 1});
      CHECK(name_of(stack({a, b}, 1).dtype()) == expected);
      CHECK(stack({a, b}, 1).to_vector() == Floats{1, 1, 0, 1});
      CHECK(name_of(where(a != 0, a, b).dtype()) == expected);
    }
  }
}

TEST_CASE("arithmetic of narrow integers wraps around as torch's", "[dtypes][narrow]") {
  NarrowIntegers dut;
  const Tensor &u = dut.u, &i = dut.i, &s = dut.s;
  CHECK(typed(u + 1) == Typed{u8, {1, 2, 201, 0}});
  CHECK(typed(u + 300) == Typed{u8, {44, 45, 244, 43}});
  CHECK(typed(u - 1) == Typed{u8, {255, 0, 199, 254}});
  CHECK(typed(u * 3) == Typed{u8, {0, 3, 88, 253}});
  CHECK(typed(-u) == Typed{u8, {0, 255, 56, 1}});
  CHECK(typed(~u) == Typed{u8, {255, 254, 55, 0}});
  CHECK(typed(i + 200) == Typed{i8, {72, -57, -55, 71}});
  CHECK(typed(-i) == Typed{i8, {-128, 1, -1, -127}});
  CHECK(typed(abs(i)) == Typed{i8, {-128, 1, 1, 127}});
  CHECK(typed(u + i) == Typed{i16, {-128, 0, 201, 382}});
  CHECK(typed(u + s) == Typed{i16, {-32768, 0, 201, -32514}});
  CHECK(typed(i + s) == Typed{i16, {32640, -2, 2, -32642}});
  CHECK(typed(u * u) == Typed{u8, {0, 1, 64, 1}});
  CHECK(typed(pow(i, 3)) == Typed{i8, {0, -1, 1, 127}});
  CHECK(typed(floor_divide(u, 2)) == Typed{u8, {0, 0, 100, 127}});
  CHECK(typed(floor_divide(i, 2)) == Typed{i8, {-64, -1, 0, 63}});
  CHECK(typed(u % 7) == Typed{u8, {0, 1, 4, 3}});
  CHECK(typed(i % 7) == Typed{i8, {5, 6, 1, 1}});
  CHECK(typed(u % -3) == Typed{u8, {0, 1, 200, 2}});
  CHECK(typed(fmod(u, 300)) == Typed{u8, {0, 1, 24, 35}});
  CHECK(typed(fmod(i, 3)) == Typed{i8, {-2, -1, 1, 1}});
  CHECK(typed(fmod(i, -3)) == Typed{i8, {-2, -1, 1, 1}});
  CHECK(typed(u & i) == Typed{i16, {0, 1, 0, 127}});
  CHECK(typed(u ^ 300) == Typed{u8, {44, 45, 228, 211}});
  CHECK(typed(sign(u)) == Typed{u8, {0, 1, 1, 1}});
  CHECK(typed(add(u, i, 2)) == Typed{i16, {-256, -1, 202, 509}});
  CHECK(typed(minimum(u, i)) == Typed{i16, {-128, -1, 1, 127}});
  CHECK((u / 2).to_vector() == Floats{0, 0.5F, 100, 127.5F});
  CHECK((u + 1.5).to_vector() == Floats{1.5F, 2.5F, 201.5F, 256.5F});
  CHECK(sqrt(u.narrow(0, 0, 2)).to_vector() == Floats{0, 1});
}

TEST_CASE("numbers beside narrow integers count in their type", "[dtypes][narrow]") {
  NarrowIntegers dut;
  const Tensor &u = dut.u, &i = dut.i;
  CHECK(typed(u == -1) == Typed{kBool, {0, 0, 0, 1}});
  CHECK(typed(u < 300) == Typed{kBool, {1, 1, 0, 0}});
  CHECK(typed(u > -1) == Typed{kBool, {0, 0, 0, 0}});
  CHECK(typed(i < 200) == Typed{kBool, {1, 0, 0, 0}});
  CHECK(typed(u == i) == Typed{kBool, {0, 0, 0, 0}});
  CHECK(typed(u.clamp_min(3)) == Typed{u8, {3, 3, 200, 255}});
  CHECK(typed(i.clamp_max(3)) == Typed{i8, {-128, -1, 1, 3}});
  CHECK(typed(masked_fill(u, u > 3, -1)) == Typed{u8, {0, 1, 255, 255}});
  for (const std::function<void()>& too_large : {std::function<void()>([&] { i.clamp_max(300); }),
                                                 {[&] { masked_fill(u, u > 3, 300); }},
                                                 {[&] { u.fill_(300); }},
                                                 {[&] { where(u > 3, 300, u); }},
                                                 {[&] { add(u, u, 300); }},
                                                 {[&] { clamp(u, -5, 300); }}}) {
    CHECK_THAT(error(too_large), Says("KB-F002", "value cannot be converted to type"));
  }
  CHECK(typed(u.fill_(-1)) == Typed{u8, {255, 255, 255, 255}});
}

TEST_CASE("reductions, orders and masks of narrow integers", "[dtypes][narrow]") {
  NarrowIntegers dut;
  const Tensor &u = dut.u, &i = dut.i;
  for (const DPPolicy& dp : {DPPolicy::on_one_pe(), on_pes(kRow)}) {
    const Tensor x = dut.of(u8, {0, 1, 200, 255}, dp);
    CHECK(typed(x.sum()) == Typed{DType::i64, {456}});
    CHECK(typed(x.to(kBool)) == Typed{kBool, {0, 1, 1, 1}});
  }
  CHECK(typed(u.prod()) == Typed{DType::i64, {0}});
  CHECK(typed(u.narrow(0, 1, 3).prod()) == Typed{DType::i64, {51000}});
  CHECK(typed(cumsum(u, 0)) == Typed{DType::i64, {0, 1, 201, 456}});
  CHECK(typed(amax(u)) == Typed{u8, {255}});
  CHECK(typed(amin(i)) == Typed{i8, {-128}});
  CHECK(typed(any(u)) == Typed{u8, {1}});
  CHECK(typed(all(u)) == Typed{u8, {0}});
  CHECK(typed(any(i)) == Typed{kBool, {1}});
  CHECK(typed(median(u)) == Typed{u8, {1}});
  CHECK(typed(argmax(u)) == Typed{DType::i64, {3}});
  CHECK(typed(argmin(i)) == Typed{DType::i64, {0}});
  CHECK(typed(sort(i, 0, true).first) == Typed{i8, {127, 1, -1, -128}});
  CHECK(typed(topk(u, 2).first) == Typed{u8, {255, 200}});
  CHECK(typed(masked_select(u, dut.of(u8, {1, 0, 1, 0}))) == Typed{u8, {0, 200}});
  CHECK(typed(where(dut.of(u8, {1, 0, 1, 0}), u, i)) == Typed{i16, {0, -1, 200, 127}});
  CHECK(typed(index_select(u, 0, dut.of(u8, {3, 0}))) == Typed{u8, {255, 0}});
  CHECK(typed(u.index_add(0, dut.of(DType::i64, {3}), dut.of(u8, {2}))) ==
        Typed{u8, {0, 1, 200, 1}});
  CHECK_THAT(error([&] { mean(u); }), Says("KB-F002", "could not infer output dtype", "Byte"));
  CHECK_THAT(error([&] { softmax(i, 0); }), Says("KB-F002", "not implemented for 'Char'"));
}

TEST_CASE("conversions to narrow integers wrap around as torch's", "[dtypes][narrow]") {
  NarrowIntegers dut;
  const Tensor x = dut.torch.tensor({-1.5, 300.7, 40000, -32769, 1e10}, {5},
                                    {.dtype = DType::f32, .dp = DPPolicy::on_one_pe()});
  CHECK(values(x.to(u8)) == Integers{255, 44, 64, 255, 0});
  CHECK(values(x.to(i8)) == Integers{-1, 44, 64, -1, 0});
  CHECK(values(x.to(i16)) == Integers{-1, 300, -25536, 32767, -7168});
  const Tensor whole = dut.of(DType::i64, {300, -1, (std::int64_t{1} << 40) + 5});
  CHECK(values(whole.to(u8)) == Integers{44, 255, 5});
  CHECK(values(whole.to(i16)) == Integers{300, -1, 5});
  const Tensor open =
      dut.torch.tensor({HUGE_VAL, -HUGE_VAL, std::nan("")}, {3}, {.dp = DPPolicy::on_one_pe()});
  CHECK(values(open.to(u8)) == Integers{255, 0, 0});
  CHECK(values(open.to(i8)) == Integers{127, -128, 0});
  CHECK(dut.u.to(DType::bf16).to_vector() == Floats{0, 1, 200, 255});
}

TEST_CASE("copies and writes between types convert as torch's", "[dtypes][narrow]") {
  NarrowIntegers dut;
  const Tensor reals = dut.torch.tensor({-1.5, 300.7, 3, 4}, {4}, {.dp = DPPolicy::on_one_pe()});
  CHECK(values(dut.u.copy_(reals)) == Integers{255, 44, 3, 4});
  CHECK(values(dut.i.copy_(dut.s)) == Integers{0, -1, 1, -1});
  CHECK(reals.copy_(dut.s).to_vector() == Floats{-32768, -1, 1, 32767});
  CHECK(values(dut.u.copy_(RuntimeContext::tensor({-1, 2.5, 256, 7}, {4}))) ==
        Integers{255, 2, 0, 7});
  dut.u[1] = 200;
  dut.u[0] = dut.s[3];
  CHECK(values(dut.u) == Integers{255, 200, 0, 7});
  CHECK(typed(dut.u.add_(dut.of(DType::i64, {1000, 2, 3, 4}))) == Typed{u8, {231, 202, 3, 11}});
  CHECK_THAT(error([&] { dut.u.add_(1.5); }),
             Says("KB-F002", "result type Float can't be cast to the desired output type Byte"));
}

TEST_CASE("narrow integers are made, read and printed", "[dtypes][narrow]") {
  NarrowIntegers dut;
  RuntimeContext& torch = dut.torch;
  const std::vector<std::uint8_t> bytes{0, 7, 255};
  const std::vector<std::int16_t> shorts{-32768, 32767};
  const std::vector<std::int8_t> chars{-128, 127};
  CHECK(typed(torch.from_blob(bytes.data(), {3})) == Typed{u8, {0, 7, 255}});
  CHECK(typed(torch.tensor(chars, {2})) == Typed{i8, {-128, 127}});
  CHECK(typed(torch.tensor(shorts, {2}, {.dp = on_pes(kRow)})) == Typed{i16, {-32768, 32767}});
  CHECK(torch.tensor(std::vector<int>{1}, {1}).dtype() == DType::i32);
  CHECK(torch.tensor(bytes, {3}, {}).to_vector<std::uint8_t>() == bytes);
  CHECK(dut.i.to_vector<std::int8_t>() == std::vector<std::int8_t>{-128, -1, 1, 127});
  CHECK(dut.u.narrow(0, 3, 1).item<int>() == 255);
  CHECK(to_string(dut.u) == "tensor([0, 1, 200, 255], dtype=u8)");
  CHECK(to_string(dut.s) == "tensor([-32768, -1, 1, 32767], dtype=i16)");
  CHECK(typed(torch.full({1}, -1, {.dtype = u8})) == Typed{u8, {255}});
  CHECK(typed(torch.full({1}, 2.7, {.dtype = i8})) == Typed{i8, {2}});
  CHECK(typed(torch.arange(-2, 2, {.dtype = i8})) == Typed{i8, {-2, -1, 0, 1}});
  CHECK(values(torch.arange(300, {.dtype = u8})).at(256) == 0);
  CHECK(typed(torch.eye(2, {.dtype = u8})) == Typed{u8, {1, 0, 0, 1}});
  CHECK(values(torch.full({1}, -32768, {.dtype = i16})) == Integers{-32768});
  for (const std::function<void()>& too_large :
       {std::function<void()>([&] { torch.full({1}, 300, {.dtype = u8}); }),
        {[&] { torch.full({1}, -256, {.dtype = u8}); }},
        {[&] { torch.full({1}, 128, {.dtype = i8}); }},
        {[&] { torch.full({1}, -129, {.dtype = i8}); }},
        {[&] {
          torch.tensor({1, 300}, {2}, {.dtype = u8});
        }},
        {[&] { torch.randint(0, 300, {2}, {.dtype = u8}); }},
        {[&] { torch.randperm(300, {.dtype = u8}); }}}) {
    CHECK_THAT(error(too_large), Says("KB-M021", "value cannot be converted to type"));
  }
}

TEST_CASE("kernels load, convert and store narrow integers", "[dtypes][narrow]") {
  NarrowIntegers dut;
  const Tensor sums = dut.torch.zeros({4}, {.dtype = i16, .dp = DPPolicy::on_one_pe()});
  dut.torch.launch(
      "widen",
      [](tl::Context& tl, tl::Pointer from, tl::Pointer to) {
        const tl::Tensor x = tl.load(from, {4}, DType::u8);
        tl.store(to, tl.cast(x, DType::i16) * 2 + tl.arange(0, 4, DType::i16));
      },
      dut.u, sums);
  CHECK(values(sums) == Integers{0, 3, 402, 513});
}

TEST_CASE("cat gives each operand a gradient of its own type", "[dtypes][narrow]") {
  NarrowIntegers dut;
  const TensorOptions half{.dtype = DType::f16, .dp = DPPolicy::on_one_pe()};
  const Tensor x = dut.torch.ones({2}, half).requires_grad_();
  const Tensor y = dut.torch.ones({2}, {.dp = half.dp}).requires_grad_();
  const Tensor all = cat({x, y, dut.u});
  CHECK(all.dtype() == DType::f32);
  CHECK(all.to_vector() == Floats{1, 1, 1, 1, 0, 1, 200, 255});
  (all * all).sum().backward();
  CHECK(x.grad().dtype() == DType::f16);
  CHECK(x.grad().to_vector() == Floats{2, 2});
  CHECK(y.grad().to_vector() == Floats{2, 2});
  CHECK_THAT(error([&] {
               cat({x, dut.torch.ones({1}, {.dtype = DType::f8e5m2, .dp = half.dp})});
             }),
             Says("KB-F002", "Promotion for Float8 Types is not supported"));
}

TEST_CASE("products of integers say that they are left out, and what to type", "[matmul][narrow]") {
  NarrowIntegers dut;
  const Tensor a = dut.torch.ones({2, 2}, {.dtype = DType::i64, .name = "a"});
  const Tensor b = dut.torch.ones({2, 2}, {.name = "b"});
  for (const std::function<void()>& product : {std::function<void()>([&] { matmul(a, a); }),
                                               {[&] { matmul(a, b); }},
                                               {[&] { matmul(b, a); }},
                                               {[&] { addmm(a, a, a); }}}) {
    CHECK_THAT(error(product),
               Says("KB-F002", "not implemented for 'Long'",
                    "matrix products of integers are left out", "a.to(kb::DType::f32)", "2^24"));
  }
}

}  // namespace
}  // namespace kernbench::test::narrow_integers_test
