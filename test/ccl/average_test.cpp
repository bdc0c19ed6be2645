// ReduceOp::avg of each type: what is divided before the sum, what after it, and what overflows
// (ADR-0160).

#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "runtime/distributed/local_backend.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::test::average_test {
namespace {

using Floats = std::vector<float>;

enum class Average { all_reduce, reduce, reduce_scatter, reduce_scatter_tensor };

// Rank 0's result of the average of the ranks' elements, which are [1] on each rank.
float average(const std::string& backend, const Floats& elements, DType dtype,
              Average by = Average::all_reduce) {
  const int ranks = static_cast<int>(elements.size());
  RuntimeContext torch{round_topology(SipTopology::ring_1d, ranks, 1)};
  torch.distributed.init_process_group(backend);
  float result = 0;
  run_on_devices(torch, ranks, [&](int rank) {
    const auto filled = [&](std::int64_t count) {
      return torch.full({count}, elements[static_cast<std::size_t>(rank)],
                        {.dtype = dtype, .dp = DPPolicy::on_one_pe()});
    };
    Tensor x = filled(1);
    switch (by) {
      case Average::all_reduce:
        torch.distributed.all_reduce(x, ReduceOp::avg);
        break;
      case Average::reduce:
        torch.distributed.reduce(x, 0, ReduceOp::avg);
        break;
      case Average::reduce_scatter:
        torch.distributed.reduce_scatter(
            x, std::vector<Tensor>(static_cast<std::size_t>(ranks), filled(1)), ReduceOp::avg);
        break;
      case Average::reduce_scatter_tensor:
        torch.distributed.reduce_scatter_tensor(x, filled(ranks), ReduceOp::avg);
        break;
    }
    if (rank == 0) result = x.item();
  });
  return result;
}

// 60,000 is 1,875 * 32, and f16 has multiples of 32 there; the sum of two is beyond its 65,504.
TEST_CASE("the average of f16 60,000 is 60,000 on up to six ranks, and finite on more",
          "[ccl][average]") {
  const std::string backend = GENERATE("local", "ahbm");
  const Average by = GENERATE(Average::all_reduce, Average::reduce, Average::reduce_scatter,
                              Average::reduce_scatter_tensor);
  for (const std::size_t ranks : {1, 2, 3, 4, 5, 6}) {
    CAPTURE(backend, ranks);
    CHECK(average(backend, Floats(ranks, 60'000), DType::f16, by) == 60'000);
  }
  // With more ranks the additions round, 37,504 for 37,500: one unit in the last place in all.
  CHECK(average(backend, Floats(7, 60'000), DType::f16, by) == 59'968);
  CHECK(average(backend, Floats(4, -65'504), DType::f16, by) == -65'504);
  CHECK(average(backend, Floats(5, -65'504), DType::f16, by) == -65'472);
}

// With 3 ranks: 60,000 / 4 = 15,000 three times, where f16 has multiples of 8, and 15,000 / (3 /
// 4).
TEST_CASE("the average of f16 is divided by 4 before and by 3/4 after a sum of three",
          "[ccl][average]") {
  const std::string backend = GENERATE("local", "ahbm");
  CHECK(average(backend, {60'000, -60'000, 60'000}, DType::f16) == 20'000);
  // Integers whose sum f16 has: the sum, divided and rounded once, to multiples of 2^-9.
  CHECK(average(backend, {1, 2, 4}, DType::f16) == 1195.0F / 512);
  // 2^-24 is the smallest number of f16, and a quarter of it is 0.
  CHECK(average(backend, Floats(3, 0x1p-24F), DType::f16) == 0);
  CHECK(average(backend, Floats(3, 3 * 0x1p-12F), DType::f16) == 3 * 0x1p-12F);
}

TEST_CASE("the average of bf16 and f32 is the sum divided after it", "[ccl][average]") {
  const std::string backend = GENERATE("local", "ahbm");
  CHECK(average(backend, {1, 2, 4}, DType::bf16) == 149.0F / 64);  // 7/3, in multiples of 2^-6
  CHECK(average(backend, {1, 2, 4}, DType::f32) == 7.0F / 3);
  CHECK(average(backend, Floats(3, 0x1p-149F), DType::f32) == 0x1p-149F);
  CHECK(average(backend, Floats(3, 3e38F), DType::f32) == std::numeric_limits<float>::infinity());
}

// 512 / 257 is 1.99222, between 255/128 and 2, which would be 512 / 256.
TEST_CASE("the number of ranks is not rounded to the type before it divides", "[ccl][average]") {
  const std::string backend = GENERATE("local", "ahbm");
  Floats elements(257, 0);
  elements[5] = 512;
  CHECK(average(backend, elements, DType::bf16) == 255.0F / 128);
}

}  // namespace
}  // namespace kernbench::test::average_test
