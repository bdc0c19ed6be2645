// How many messages a collective of a tensor on several PEs of each SIP takes.

#include <catch2/catch.hpp>
#include <numeric>

#include "ccl/core/config.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::test::dealt_chunks_test {

namespace {

constexpr int kRanks = 6;
constexpr DPPolicy kSharded{.cube = Shard::column_wise, .pe = Shard::column_wise};

// Messages of an all_reduce by a ring in one direction.
std::int64_t messages_of(int pes, std::int64_t elements) {
  RuntimeContext torch(link_topology(SipTopology::ring_1d, kRanks, 1, pes),
                       {.ccl = ccl::Config::parse("defaults: {algorithm: ring_allreduce}")});
  torch.distributed.init_process_group("ahbm");
  torch.multiprocessing.spawn(
      [&](int rank) {
        torch.ahbm.set_device(rank);
        const Tensor x = torch.full({1, elements}, rank + 1, {.dtype = DType::f32, .dp = kSharded});
        torch.distributed.all_reduce(x);
        CHECK(x.to_vector() == std::vector<float>(static_cast<std::size_t>(elements), 21));
      },
      {}, kRanks);
  return torch.engine().op_log().count(sim::OpKind::send);
}

}  // namespace

TEST_CASE("few elements take a message for each chunk, or part of one that a PE has",
          "[ccl][cost]") {
  const int pes = GENERATE(1, 2, 4);
  // The bounds of 6 chunks and those of the shards cut the tensor.
  const int parts = kRanks + pes - std::gcd(kRanks, pes);
  CHECK(messages_of(pes, 96) == 2 * (kRanks - 1) * parts);
}

TEST_CASE("many elements take a message of each PE for each chunk", "[ccl][cost]") {
  constexpr int kPes = 4;
  // A message carries at most a slot of 16 KiB: a chunk of one shard fits, that of all does not.
  CHECK(messages_of(kPes, 6 * 4096 * kPes) == 2 * (kRanks - 1) * kRanks * kPes);
}

}  // namespace kernbench::test::dealt_chunks_test
