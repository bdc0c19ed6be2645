// Rows of one tensor as outputs of a collective: they share its memory, and lie apart in it.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ccl/backend/ahbm_backend.h"
#include "runtime/distributed/local_backend.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::row_outputs_test {

TEST_CASE("rows of one tensor are outputs that lie apart, the same row twice does not",
          "[ccl][under_way]") {
  distributed::register_local_backend();
  ccl::register_ahbm_backend();
  const std::string backend = GENERATE("local", "ahbm");
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 2));
  torch.distributed.init_process_group(backend);
  torch.multiprocessing.spawn(
      [&](int rank) {
        torch.ahbm.set_device(rank);
        const Tensor rows = torch.zeros({3, 5}, {.dp = DPPolicy::on_one_pe()});
        const Tensor x = torch.full({5}, rank + 1, {.dp = DPPolicy::on_one_pe()});
        torch.distributed.all_gather({rows[2], rows[0]}, x);
        CHECK(rows.to_vector<float>() ==
              std::vector<float>{2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
        CHECK_THAT(error_of<CollectiveError>([&] {
                     torch.distributed.all_gather({rows[1], rows[1]}, x);
                   }),
                   Catch::Contains("KB-C020") && Catch::Contains("lie in the same memory"));
      },
      {}, 2);
}

}  // namespace kernbench::test::row_outputs_test
