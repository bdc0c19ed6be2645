// Buckets by their names, in traces and explanations.

#include <algorithm>
#include <sstream>

#include "runtime/profiler/profile.h"
#include "runtime/profiler/trace.h"
#include "runtime/torch/internals.h"
#include "test/parallel/fsdp_world.h"

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

// Up to the next quotation mark; empty if there is no such key.
std::string text_after(std::string_view key, const std::string& line) {
  const std::size_t at = line.find(key);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size();
  return line.substr(begin, line.find('"', begin) - begin);
}

Run run() {
  DataParallelWorld world(2, "ahbm", {.data = false, .profile = true});
  Run result;
  Time start{0};
  world.spawn([&](int rank) {
    DistributedDataParallel ddp(nn::Sequential(nn::Linear(world.torch, 512, 512, kOnOnePe),
                                               nn::Linear(world.torch, 512, 512, kOnOnePe),
                                               nn::Linear(world.torch, 512, 512, kOnOnePe)),
                                {.bucket_cap_mb = 1});
    const Tensor x = world.torch.zeros({64, 512}, kOnOnePe);
    for (int i = 0; i < 3; ++i) {
      world.torch.ahbm.synchronize();
      if (i == 2) world.torch.distributed.barrier();
      if (i == 2 && rank == 0) start = world.torch.engine().now();
      ddp->zero_grad();
      ddp(x).sum().backward();
    }
    const auto step = ddp->last_step();
    for (const BucketTimes& bucket : step.buckets) result.bytes[bucket.bucket] += bucket.bytes;
  });
  const runtime::Simulation& simulation = simulation_of(world.torch);
  result.profile = runtime::make_profile(simulation, start);
  std::istringstream trace(trace_json(simulation, runtime::TraceLevel::ranks));
  for (std::string line; std::getline(trace, line);) {  // an event each
    if (line.find(R"("cat":"collective")") == std::string::npos) continue;
    if (line.find(R"("pid":2,)") == std::string::npos) continue;
    result.spans.push_back(text_after(R"("name":")", line));
    result.calls.push_back(text_after(R"("call":")", line));
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

TEST_CASE("and groups of parameters, by their modules", "[fsdp][profiler]") {
  const bool blocks = GENERATE(true, false);
  DataParallelWorld world(2, "ahbm", {.data = false, .profile = true, .launch_blocking = blocks});
  std::vector<std::string> names;  // of the table
  world.spawn([&](int rank) {
    const nn::Sequential model(nn::Linear(world.torch, 64, 64, kOnOnePe),
                               nn::Linear(world.torch, 64, 64, kOnOnePe),
                               nn::Linear(world.torch, 64, 64, kOnOnePe));
    fully_shard(std::vector{model->children()[1], model->children()[2]});
    const FSDPModule fsdp = fully_shard(model);
    model(world.torch.zeros({8, 64}, kOnOnePe)).sum().backward();
    for (const BucketTimes& bucket : fsdp.last_step().buckets) {
      if (rank == 0) names.push_back(bucket.collective + " of " + bucket.name);
    }
  });
  CHECK(names == std::vector<std::string>{"all_gather of root", "all_gather of 1-2",
                                          "all_gather of 1-2", "reduce_scatter of 1-2",
                                          "reduce_scatter of root"});
  const runtime::Profile profile = runtime::make_profile(simulation_of(world.torch));
  for (const char* const group : {"root", "1-2"}) {
    for (const char* const call : {"all_gather_into_tensor", "reduce_scatter_tensor"}) {
      CAPTURE(group, call);
      CHECK(std::ranges::any_of(profile.operations, [&](const OperationRow& row) {
        return row.part == group && row.name == call;
      }));
    }
  }
  CHECK_THAT(runtime::table(profile), Catch::Contains(", 1-2"));
}

}  // namespace
}  // namespace kernbench::test::named_buckets_test
