// Buckets by their names, in traces and explanations.

#include <nlohmann/json.hpp>

#include "runtime/profiler/explain.h"
#include "runtime/profiler/profile.h"
#include "runtime/profiler/trace.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::named_buckets_test {
namespace {

using nn::parallel::BucketTimes;
using nn::parallel::DistributedDataParallel;
using runtime::OperationRow;

struct Run {
  runtime::Profile profile;              // of the third step
  std::vector<std::string> spans;        // of rank 1's group, in the whole run
  std::vector<std::string> calls;        // of those spans
  std::vector<Bytes> bytes = {0, 0, 0};  // by bucket, of both ranks in the third step
};

Run run() {
  DataParallelWorld world(2, "ahbm", {.data = false, .profile = true});
  Run result;
  runtime::ProfileStart start;
  world.spawn([&](int rank) {
    DistributedDataParallel ddp(nn::Sequential(nn::Linear(world.torch, 512, 512, kOnOnePe),
                                               nn::Linear(world.torch, 512, 512, kOnOnePe),
                                               nn::Linear(world.torch, 512, 512, kOnOnePe)),
                                {.bucket_cap_mb = 1});
    const Tensor x = world.torch.zeros({64, 512}, kOnOnePe);
    for (int i = 0; i < 3; ++i) {
      world.torch.ahbm.synchronize();
      if (i == 2) world.torch.distributed.barrier();
      if (i == 2 && rank == 0) start = runtime::profile_start(world.torch.simulation());
      ddp->zero_grad();
      ddp(x).sum().backward();
    }
    const auto step = ddp->last_step();
    for (const BucketTimes& bucket : step.buckets) result.bytes[bucket.bucket] += bucket.bytes;
  });
  const runtime::Simulation& simulation = world.torch.simulation();
  result.profile = runtime::profile_of(simulation, start);
  const auto trace = nlohmann::json::parse(trace_json(simulation, runtime::TraceLevel::ranks));
  for (const auto& event : trace["traceEvents"]) {
    if (event.value("cat", "") != "collective" || event["pid"] != 2) continue;
    result.spans.push_back(event["name"]);
    result.calls.push_back(event["args"].value("call", ""));
  }
  return result;
}

TEST_CASE("traces and explanations name buckets", "[ddp][profiler]") {
  const Run made = run();
  // The constructor's two, the first step's bucket, the two of the rebuilding, the second step's
  // buckets, the barrier, the third step's.
  CHECK(made.spans == std::vector<std::string>{"all_gather_object", "broadcast", "bucket 0",
                                               "broadcast", "broadcast", "bucket 0", "bucket 1",
                                               "bucket 2", "barrier", "bucket 0", "bucket 1",
                                               "bucket 2"});
  CHECK(made.calls[2] == "all_reduce");
  for (int bucket = 0; bucket < 3; ++bucket) {
    CAPTURE(bucket);
    const auto& rows = made.profile.operations;
    const auto row = std::ranges::find(rows, fmt::format("bucket {}", bucket), &OperationRow::part);
    REQUIRE(row != rows.end());
    CHECK(row->name == "all_reduce");
    CHECK(row->count == 2);  // of both ranks
    CHECK(row->bytes == made.bytes[static_cast<std::size_t>(bucket)]);
    CHECK(row->exposed > Time{0});
  }
  CHECK_THAT(runtime::table(made.profile), Catch::Contains("all_reduce, bucket 2"));
}

}  // namespace
}  // namespace kernbench::test::named_buckets_test
