// The random programs that the runtime's tests run on `local`, on ahbm.

#include <catch2/catch.hpp>

#include "runtime/torch/run_ranks.h"
#include "test/runtime/distributed/random_program.h"
#include "test/support/small_topology.h"

namespace kernbench::test::random_reference_test {
namespace {

int wrong_programs(int ranks, std::uint32_t first_seed, int count) {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, ranks));
  torch.distributed.init_process_group("ahbm");
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    std::mt19937 random(first_seed + static_cast<std::uint32_t>(i));
    const RandomProgram program = make_program(random, ranks, {});
    std::vector<History> histories(static_cast<std::size_t>(ranks));
    run_on_devices(torch, ranks, [&](int rank) {
      histories[static_cast<std::size_t>(rank)] = run_rank(torch, program, program.steps, rank);
    });
    for (int rank = 0; rank < ranks; ++rank) {
      wrong += histories[static_cast<std::size_t>(rank)] != expected_history(program, rank);
    }
  }
  return wrong;
}

TEST_CASE("random legal programs compute what a plain reference does", "[ccl][random]") {
  for (int ranks = 2; ranks <= 6; ++ranks) {
    CAPTURE(ranks);
    CHECK(wrong_programs(ranks, static_cast<std::uint32_t>(1'000'000 * ranks), 100) == 0);
  }
}

TEST_CASE("10,000 random legal programs compute what a plain reference does", "[.][ccl][long]") {
  for (int ranks = 2; ranks <= 6; ++ranks) {
    CAPTURE(ranks);
    CHECK(wrong_programs(ranks, static_cast<std::uint32_t>(1'000'000 * ranks), 2'000) == 0);
  }
}

}  // namespace
}  // namespace kernbench::test::random_reference_test
