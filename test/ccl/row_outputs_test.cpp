// Rows of one tensor as outputs of a collective: they share its memory, and lie apart in it.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/distributed/local_backend.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::row_outputs_test {

TEST_CASE("rows of one tensor are outputs that lie apart, the same row twice does not",
          "[ccl][under_way]") {
  const std::string backend = GENERATE("local", "ahbm");
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 2));
  torch.distributed.init_process_group(backend);
  run_on_devices(torch, 2, [&](int rank) {
    const Tensor rows = torch.zeros({3, 5}, {.dp = DPPolicy::on_one_pe()});
    const Tensor x = torch.full({5}, rank + 1, {.dp = DPPolicy::on_one_pe()});
    torch.distributed.all_gather({rows[2], rows[0]}, x);
    CHECK(rows.to_vector<float>() ==
          std::vector<float>{2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
    CHECK_THAT(error_of<CollectiveError>([&] {
                 torch.distributed.all_gather({rows[1], rows[1]}, x);
               }),
               Catch::Contains("KB-C020") && Catch::Contains("lie in the same memory"));
  });
}

}  // namespace kernbench::test::row_outputs_test
