// Collectives on integers and on bool: exact on both backends.

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/distributed/local_backend.h"
#include "runtime/functional/functional.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/values/element_format.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::ccl_integers_test {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kBig = (std::int64_t{1} << 53) + 1;
constexpr int kRanks = 3;

// The elements that a rank brings.
Integers brought(int rank) {
  return {kBig + rank, -rank, 1LL << (10 + rank), rank % 2, 7 - rank};
}

Integers reduced(ReduceOp op, const std::vector<Integers>& inputs) {
  Integers result = inputs.front();
  for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
    const Integers& own = inputs[rank];
    for (std::size_t i = 0; i < own.size(); ++i) {
      std::int64_t& at = result[i];
      switch (op) {
        case ReduceOp::sum:
          at += own[i];
          break;
        case ReduceOp::product:
          at *= own[i];
          break;
        case ReduceOp::min:
          at = std::min(at, own[i]);
          break;
        case ReduceOp::max:
          at = std::max(at, own[i]);
          break;
        case ReduceOp::band:
          at &= own[i];
          break;
        case ReduceOp::bor:
          at |= own[i];
          break;
        default:
          at ^= own[i];
          break;
      }
    }
  }
  return result;
}

Integers expected(ReduceOp op) {
  return reduced(op, {brought(0), brought(1), brought(2)});
}

// Runs a program on each rank of a backend.
template <class Program>
void run(const std::string& backend, const Program& program) {
  RuntimeContext torch{round_topology(SipTopology::ring_1d, kRanks, 1)};
  torch.distributed.init_process_group(backend);
  run_on_devices(torch, kRanks, [&](int rank) { program(torch, rank); });
}

TEST_CASE("integers of 8 and 16 bits are reduced modulo 2^8 and 2^16", "[ccl][integers]") {
  const std::string backend = GENERATE("local", "ahbm");
  const DType dtype = GENERATE(DType::u8, DType::i8, DType::i16);
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max);
  CAPTURE(backend, name_of(dtype), name_of(op));
  const std::vector<Integers> inputs = {
      {100, 3, 255, 0, -7}, {90, 5, 1, -128, 9}, {80, 7, 2, 1, 1}};
  // What ranks bring, as elements of the type, and the result of 64 bits as one.
  const auto as_elements = [&](Integers numbers) {
    for (std::int64_t& number : numbers) number = sim::to_whole_number(dtype, number);
    return numbers;
  };
  std::vector<Integers> brought;
  for (const Integers& input : inputs) brought.push_back(as_elements(input));
  const Integers sums = as_elements(reduced(op, brought));
  run(backend, [&](RuntimeContext& torch, int rank) {
    for (const DPPolicy& dp : {DPPolicy::on_one_pe(), DPPolicy{.cube = Shard::row_wise}}) {
      const Integers& own = brought[static_cast<std::size_t>(rank)];
      const Tensor x =
          torch.tensor(std::span<const std::int64_t>(own), {5}, {.dtype = dtype, .dp = dp});
      torch.distributed.all_reduce(x, op);
      CHECK(x.dtype() == dtype);
      CHECK(x.to_vector<std::int64_t>() == sums);
    }
  });
}

TEST_CASE("integers are reduced exactly among ranks", "[ccl][integers]") {
  const std::string backend = GENERATE("local", "ahbm");
  const ReduceOp op = GENERATE(ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::band,
                               ReduceOp::bor, ReduceOp::bxor);
  CAPTURE(backend, name_of(op));
  run(backend, [&](RuntimeContext& torch, int rank) {
    for (const DPPolicy& dp : {DPPolicy::on_one_pe(), DPPolicy{.cube = Shard::row_wise}}) {
      const Integers own = brought(rank);
      const Tensor x = torch.tensor(std::span<const std::int64_t>(own), {5}, {.dp = dp});
      torch.distributed.all_reduce(x, op);
      CHECK(x.to_vector<std::int64_t>() == expected(op));
    }
  });
}

TEST_CASE("bool has and, or, exclusive or, and moves as one byte", "[ccl][integers]") {
  const std::string backend = GENERATE("local", "ahbm");
  run(backend, [&](RuntimeContext& torch, int rank) {
    const auto truths = [&] {
      const Integers own{1, rank % 2, rank == 1 ? 1 : 0, 0};
      return torch.tensor(std::span<const std::int64_t>(own), {4},
                          {.dtype = DType::boolean, .dp = DPPolicy::on_one_pe()});
    };
    const auto reduced = [&](ReduceOp op) {
      const Tensor x = truths();
      torch.distributed.all_reduce(x, op);
      return x.to_vector<std::int64_t>();
    };
    CHECK(reduced(ReduceOp::band) == Integers{1, 0, 0, 0});
    CHECK(reduced(ReduceOp::bor) == Integers{1, 1, 1, 0});
    CHECK(reduced(ReduceOp::bxor) == Integers{1, 1, 1, 0});
    const Tensor all = torch.zeros({12}, {.dtype = DType::boolean, .dp = DPPolicy::on_one_pe()});
    torch.distributed.all_gather_into_tensor(all, truths());
    CHECK(all.to_vector<std::int64_t>() == Integers{1, 0, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0});
    const Tensor ids = truths().to(DType::i64);
    torch.distributed.broadcast(ids, 1);
    CHECK(ids.to_vector<std::int64_t>() == Integers{1, 1, 1, 0});
  });
}

TEST_CASE("a reduction that a type has not is refused", "[ccl][integers]") {
  run("ahbm", [](RuntimeContext& torch, int) {
    const Tensor ids = torch.ones({4}, {.dtype = DType::i64});
    CHECK_THAT(error_of<CollectiveError>([&] { torch.distributed.all_reduce(ids, ReduceOp::avg); }),
               Says("KB-C020", "Cannot use ReduceOp.AVG with Long"));
    CHECK_THAT(error_of<CollectiveError>(
                   [&] { torch.distributed.all_reduce(torch.ones({4}), ReduceOp::band); }),
               Says("KB-C020", "Cannot use ReduceOp.BAND with non-integral dtype"));
  });
}

}  // namespace
}  // namespace kernbench::test::ccl_integers_test
