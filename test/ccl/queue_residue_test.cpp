// Messages that are left in a queue must not reach the next collective.

#include <catch2/catch.hpp>

#include "ccl/ahbm_backend.h"
#include "runtime/context/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

namespace {

const bool kIsRegistered = ccl::register_ahbm_backend();

void all_reduce_on_every_rank(RuntimeContext& torch, bool leaves_a_message,
                              std::vector<std::vector<float>>& sums) {
  const auto worker = [&](int rank) {
    torch.ahbm.set_device(rank);
    Tensor x = torch.ones({6}, {.dp = DPPolicy::replicated()});
    if (leaves_a_message && rank == 0) {
      torch.launch(
          "send_and_forget",
          [](tl::Context& tl, tl::Pointer p) {
            tl.send(tl::Direction::global_east, tl.load(p, {1}, DType::f32));
          },
          x);
    }
    torch.distributed.all_reduce(x);
    sums[static_cast<std::size_t>(rank)] = x.to_vector<float>();
  };
  torch.multiprocessing.spawn(worker, std::tuple{}, 3);
}

}  // namespace

TEST_CASE("a message that a kernel left behind is refused by the next collective, not added",
          "[ccl][errors]") {
  REQUIRE((kIsRegistered || distributed::find_backend("ahbm") != nullptr));
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 3, 1));
  torch.distributed.init_process_group("ahbm");
  std::vector<std::vector<float>> sums(3);
  try {
    all_reduce_on_every_rank(torch, true, sums);
    FAIL("no error");
  } catch (const SpawnException& error) {
    CHECK(error.rank() == 1);
    CHECK(error.exit_code() == ExitCode::device_fault);
    CHECK_THAT(error.what(),
               Catch::Contains("[KB-Q003] tl.recv in kernel 'intercube_allreduce' on "
                               "sip1.cube0.pe0: the oldest message of ipcq sip0.cube0.pe0 "
                               "global_east -> sip1.cube0.pe0 global_west (4 B, sent at ") &&
                   Catch::Contains("was left there by a kernel of the user's"));
  }
  all_reduce_on_every_rank(torch, false, sums);  // the queues are empty again
  for (const auto& sum : sums) CHECK(sum == std::vector<float>(6, 3.0F));
}

}  // namespace kernbench::test
