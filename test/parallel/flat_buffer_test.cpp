#include "runtime/parallel/flat_buffer.h"

#include "test/runtime/functional/operators_under_test.h"

namespace kernbench::test::flat_buffer_test {
namespace {

using nn::parallel::FlatBuffer;

Floats scaled(const Floats& elements, float factor) {
  Floats all;
  for (const float element : elements) all.push_back(element * factor);
  return all;
}

TEST_CASE("a flat buffer gives back what it was given, with every placement", "[ddp]") {
  OperatorsUnderTest dut;
  const Shard cube = GENERATE(kR, kRow, kColumn);
  const Shard pe = GENERATE(kR, kRow, kColumn);
  const DPPolicy dp = on_all(cube, pe);
  const Floats a = small_integers(7 * 5, 1);
  const Floats b = small_integers(3, 2);
  const Tensor x = dut.tensor({7, 5}, a, dp);
  const Tensor y = dut.tensor({3}, b, dp);
  const FlatBuffer buffer({x, y}, DType::f32);
  buffer.pack({x, y}, 0.5);
  const Tensor back_x = dut.torch.zeros_like(x);
  const Tensor back_y = dut.torch.zeros_like(y);
  buffer.unpack({back_x, back_y});
  CHECK(back_x.to_vector() == scaled(a, 0.5F));
  CHECK(back_y.to_vector() == scaled(b, 0.5F));
  buffer.pack({Tensor(), y});
  buffer.unpack({back_x, Tensor()});
  CHECK(back_x.to_vector() == Floats(35, 0));
  CHECK(back_y.to_vector() == scaled(b, 0.5F));
}

TEST_CASE("one PE's buffer has no gaps, and may have another type", "[ddp]") {
  OperatorsUnderTest dut;
  const Tensor x = dut.tensor({2, 2}, {1, 2, 3, 4}, DPPolicy::on_one_pe());
  const Tensor y = dut.tensor({3}, {5, 6, 7}, DPPolicy::on_one_pe());
  const FlatBuffer buffer({y, x}, DType::f16);
  buffer.pack({y, x});
  CHECK(buffer.tensor().dtype() == DType::f16);
  CHECK(buffer.tensor().to_vector() == Floats{5, 6, 7, 1, 2, 3, 4});
}

TEST_CASE("beside summands, a copy counts once", "[ddp]") {
  OperatorsUnderTest dut;
  const Tensor sum = dut.tensor({2}, {0, 0}, on_pes(kPartial));
  Tensor summands = sum;
  summands.copy_shard_(0, RuntimeContext::tensor({1, 2}));
  summands.copy_shard_(1, RuntimeContext::tensor({10, 20}));
  const Tensor copies = dut.tensor({2}, {3, 4}, on_pes(kR));
  const FlatBuffer buffer({copies, summands}, DType::f32);
  buffer.pack({copies, summands});
  CHECK(buffer.tensor().to_vector() == Floats{3, 4, 11, 22});
  CHECK(buffer.tensor().shard_to_vector(1) == Floats{0, 0, 10, 20});
}

TEST_CASE("tensors of one type and the same holders, cut on the same levels, are of one kind",
          "[ddp]") {
  OperatorsUnderTest dut;
  const auto kind_of_second = [&](const Tensor& second) {
    return nn::parallel::bucket_items({dut.tensor({2}, {1, 2}, on_pes(kR)), second})[1].kind;
  };
  CHECK(kind_of_second(dut.tensor({4}, {1, 2, 3, 4}, on_pes(kPartial))) == 0);
  CHECK(kind_of_second(dut.tensor({4}, {1, 2, 3, 4}, on_pes(kRow))) == 1);
  CHECK(kind_of_second(dut.tensor({4}, {1, 2, 3, 4}, on_cubes(kR))) == 1);
  CHECK(kind_of_second(dut.tensor({4}, {1, 2, 3, 4}, on_pes(kR), DType::f16)) == 1);
}

}  // namespace
}  // namespace kernbench::test::flat_buffer_test
