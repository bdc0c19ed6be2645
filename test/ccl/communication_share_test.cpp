// Scratch that users' kernels leave to collectives.

#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/kernel_run.h"
#include "test/ccl/group_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::communication_share_test {
namespace {

constexpr Bytes kTcm = 1 << 20;
constexpr Bytes kShare = 256 << 10;

Topology ring(Bytes share) {
  Topology topology = round_topology(SipTopology::ring_1d, 4);
  topology.pe.tcm.capacity = kTcm;
  topology.pe.gemm = {.rows = 16, .columns = 16, .clock = Frequency{1'000'000'000}};
  topology.communication.scratch = share;
  return topology;
}

void multiply(tl::Context& tl, tl::Pointer a, tl::Pointer c, std::int64_t n) {
  tl.composite({.a = a, .b = a, .c = c, .m = n, .n = n, .k = n});
}

// The time of an all_reduce of so many elements beside a composite of [n, n] f32, or of either.
Time overlap(Bytes share, std::int64_t count, std::int64_t n) {
  Time longest{0};
  run_group(ring(share), {0, 1, 2, 3}, [&](const Member& m) {
    const DPPolicy one = DPPolicy::on_one_pe();
    const Tensor x = m.torch.zeros({std::max<std::int64_t>(count, 1)}, {.dp = one});
    const Tensor a = m.torch.zeros({n, n}, {.dp = one});
    const Tensor c = m.torch.zeros({n, n}, {.dp = one});
    const Time begin = m.torch.engine().now();
    distributed::Work work;
    if (count > 0) work = m.torch.distributed.all_reduce(x, ReduceOp::sum, {.async_op = true});
    if (n > 1) m.torch.launch("multiply", multiply, a, c, n);
    if (work) work.wait();
    m.torch.ahbm.synchronize();
    longest = std::max(longest, m.torch.engine().now() - begin);
    return std::string();
  });
  return longest;
}

TEST_CASE("a collective's scratch is not taken by a composite that begins before it",
          "[ccl][overlap]") {
  constexpr std::int64_t kCount = 200'000;
  constexpr std::int64_t kSide = 512;
  const Time both = overlap(kShare, kCount, kSide);
  const Time longer = std::max(overlap(kShare, kCount, 1), overlap(kShare, 0, kSide));
  CHECK(to_ns(both) < 1.03 * to_ns(longer));
}

TEST_CASE("users' kernels have what they leave only where there are queues", "[ccl][overlap]") {
  RuntimeContext torch(ring(kShare));
  const Tensor x = torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
  const auto free_scratch = [&] {
    Bytes free = 0;
    torch.launch(
        "ask", [&](tl::Context& tl, tl::Pointer) { free = tl.run().free_scratch(); }, x);
    return free;
  };
  CHECK(free_scratch() == kTcm);
  torch.distributed.init_process_group("ahbm");
  const sim::ProcessingElement& pe = simulation_of(torch).machine().pe({0, 0, 0});
  CHECK(pe.scratch_capacity() < kTcm);  // the slots of queues
  CHECK(free_scratch() == pe.scratch_capacity() - kShare);
  torch.distributed.destroy_process_group();
  CHECK(free_scratch() == kTcm);
}

}  // namespace
}  // namespace kernbench::test::communication_share_test
