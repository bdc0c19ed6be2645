// How many messages a collective of a tensor on several PEs of each SIP takes.

#include <catch2/catch.hpp>
#include <numeric>

#include "ccl/core/config.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::test::message_count_test {

namespace {

constexpr int kRanks = 6;
constexpr int kPes = 4;
constexpr DPPolicy kSharded{.cube = Shard::column_wise, .pe = Shard::column_wise};

// Messages of an all_reduce, whose sums it checks.
std::int64_t messages_on(const Topology& topology, std::string_view algorithm,
                         std::int64_t elements) {
  RuntimeContext torch(topology, {.ccl = ccl::Config().with_algorithm(algorithm)});
  torch.distributed.init_process_group("ahbm");
  const int ranks = torch.distributed.get_world_size();
  run_on_devices(torch, ranks, [&](int rank) {
    const Tensor x = torch.full({1, elements}, rank + 1, {.dtype = DType::f32, .dp = kSharded});
    torch.distributed.all_reduce(x);
    const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
    CHECK(x.to_vector() == std::vector<float>(static_cast<std::size_t>(elements), sum));
  });
  return torch.engine().op_log().count(sim::OpKind::send);
}

// By a ring in one direction.
std::int64_t messages_of(int pes, std::int64_t elements) {
  return messages_on(link_topology(SipTopology::ring_1d, kRanks, 1, pes), "ring_allreduce",
                     elements);
}

}  // namespace

TEST_CASE("few elements take a message for each chunk, or each PE that has some of it",
          "[ccl][cost]") {
  const int pes = GENERATE(1, 2, 4);
  // The bounds of 6 chunks and those of the shards cut the tensor.
  const int messages = kRanks + pes - std::gcd(kRanks, pes);
  CHECK(messages_of(pes, 96) == 2 * (kRanks - 1) * messages);
}

// A line of 4 members adds up 4 chunks along trees of 3 links, and gathers them along as many.
TEST_CASE("on a square torus each PE has messages of one channel alone, whatever the size",
          "[ccl][cost]") {
  const std::int64_t elements = GENERATE(4096, 1 << 16);
  constexpr int kSide = 4;
  constexpr int kChannels = 4;  // rows or columns first, ties either way
  constexpr int kPasses = 4;
  const std::int64_t of_line = kSide * (kSide - 1);
  CHECK(messages_on(link_topology(SipTopology::torus_2d, kSide, kSide, kPes), "intercube_allreduce",
                    elements) == kChannels * kPasses * kSide * of_line);
}

TEST_CASE("many elements take a message of each PE for each chunk", "[ccl][cost]") {
  // A message carries at most a slot of 16 KiB: a chunk of one shard fits, that of all does not.
  CHECK(messages_of(kPes, 6 * 4096 * kPes) == 2 * (kRanks - 1) * kRanks * kPes);
}

}  // namespace kernbench::test::message_count_test
