// A collective that the others will never join.

#include <catch2/catch.hpp>

#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::lone_driver_test {

TEST_CASE("a driver without spawn is told that nobody else will come", "[ccl][errors]") {
  RuntimeContext torch(round_topology());
  torch.distributed.init_process_group("ahbm");
  Tensor x = torch.ones({4}, {.dp = DPPolicy::on_one_pe()});
  CHECK_THAT(error_of<Error>([&] { torch.distributed.all_reduce(x); }),
             test::Says("KB-C002", "rank 1", "all_reduce#0", "0"));
}

TEST_CASE("a deadlock report names the collective that a rank is in, and the end that is missing",
          "[ccl][errors]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 2, 1, 2, 1));
  torch.distributed.init_process_group("ahbm");
  const auto worker = [&](int rank) {
    torch.ahbm.set_device(rank);
    Tensor x = torch.ones({4}, {.dp = DPPolicy::on_one_pe()});
    if (rank == 0) {
      torch.launch(
          "waits",
          [](tl::Context& tl, tl::Pointer) { tl.recv(tl::Direction::east, {4}, DType::f32); }, x);
    }
    torch.distributed.all_reduce(x);
  };
  const std::string text =
      error_of<Error>([&] { torch.multiprocessing.spawn(worker, std::tuple{}, 2); });
  CHECK_THAT(text, test::Says("KB-D001", "2 ranks", "4", "1"));
  CHECK_THAT(text, Catch::Contains("rank 1 waits for all_reduce#0 ([4] Float SUM) at "
                                   "lone_driver_test.cpp:31 on stream 1 of device 1 since t=0 ns"));
  CHECK_THAT(text, Catch::Contains("; sip0.cube1.pe0 runs no kernel"));
}

}  // namespace kernbench::test::lone_driver_test
