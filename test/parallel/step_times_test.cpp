// Tests how much of a step's communication is hidden, against the recurrence
//   S_k = max(R_k, E_k-1), E_k = S_k + T(n_k)
// for the times R at which buckets are ready, S at which they start and E at which they end.

#include <algorithm>
#include <limits>

#include "runtime/parallel/logging_data.h"
#include "runtime/torch/run_ranks.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test::step_times_test {
namespace {

using nn::parallel::BucketTimes;
using nn::parallel::DistributedDataParallel;
using nn::parallel::StepTimes;

// The time of an all_reduce of f32 numbers on an idle machine.
Time alone(Bytes bytes) {
  RuntimeContext torch(links_and_gemm(), {.data = false});
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, 2,
                 [&](int) { torch.distributed.all_reduce(torch.zeros({bytes / 4}, kOnOnePe)); });
  return torch.engine().now();
}

StepTimes step_with(double bucket_cap_mb, bool blocks) {
  RuntimeContext torch(links_and_gemm(), {.data = false, .launch_blocking = blocks});
  torch.distributed.init_process_group("ahbm");
  StepTimes step;
  run_on_devices(torch, 2, [&](int rank) {
    DistributedDataParallel ddp(nn::Sequential(nn::Linear(torch, 256, 512, kOnOnePe), nn::ReLU(),
                                               nn::Linear(torch, 512, 512, kOnOnePe), nn::ReLU(),
                                               nn::Linear(torch, 512, 1024, kOnOnePe)),
                                {.bucket_cap_mb = bucket_cap_mb});
    const Tensor x = torch.zeros({64, 256}, kOnOnePe);
    for (int i = 0; i < 3; ++i) {  // the second forms buckets anew
      ddp->zero_grad();
      ddp(x).sum().backward();
    }
    const StepTimes last = ddp->last_step();
    if (rank == 0) step = last;
  });
  return step;
}

TEST_CASE("buckets start and end when the recurrence says, to the picosecond", "[ddp][timing]") {
  const double cap = GENERATE(0.0, 0.5, 1.0, 25.0);
  const bool blocks = GENERATE(true, false);
  CAPTURE(cap, blocks);
  const StepTimes step = step_with(cap, blocks);
  REQUIRE(step.buckets.size() == (cap == 25 ? 2 : cap == 0 ? 5 : 3));
  Time before{0};
  Time hidden{0};
  Time exposed{0};
  for (const BucketTimes& bucket : step.buckets) {
    CAPTURE(bucket.bucket, bucket.bytes);
    CHECK(bucket.started == std::max(bucket.ready, before));
    CHECK(bucket.ended == bucket.started + alone(bucket.bytes));
    CHECK(bucket.hidden + bucket.exposed == bucket.ended - bucket.started);
    before = bucket.ended;
    hidden += bucket.hidden;
    exposed += bucket.exposed;
  }
  // The four classes are the whole step, and have what buckets have.
  CHECK(step.compute_only + step.both + step.exposed + step.idle == step.end - step.begin);
  CHECK(step.both == hidden);
  CHECK(step.exposed == exposed);
  CHECK(step.buckets.back().exposed > Time{0});  // nothing is computed after the last gradient
}

// By torch's names; of the second step, which has formed its buckets anew.
TEST_CASE("the logging data say how long the parts of a step took", "[ddp][timing]") {
  RuntimeContext torch(links_and_gemm(), {.data = false});
  torch.distributed.init_process_group("ahbm");
  run_on_devices(torch, 2, [&](int) {
    DistributedDataParallel ddp(nn::Sequential(nn::Linear(torch, 512, 512, kOnOnePe),
                                               nn::Linear(torch, 512, 512, kOnOnePe)),
                                {.bucket_cap_mb = 1, .gradient_as_bucket_view = true});
    const Tensor x = torch.zeros({64, 512}, kOnOnePe);
    nn::parallel::DDPLoggingData first;
    for (int i = 0; i < 2; ++i) {
      ddp->zero_grad();
      ddp(x).sum().backward();
      if (i == 0) first = ddp->_get_ddp_logging_data();
    }
    const auto data = ddp->_get_ddp_logging_data();
    const StepTimes step = ddp->last_step();
    CHECK(data.dtypes == "f32");
    CHECK(data.num_buckets_reduced == 2);
    CHECK(data.unused_parameter_size == 0);
    CHECK(data.module_name == "Sequential");
    CHECK((data.device_ids.empty() && data.output_device == -1));
    CHECK((data.comm_hook.empty() && !data.join_uneven_inputs));
    constexpr Bytes kMiB = Bytes{1} << 20;
    CHECK(data.initial_bucket_size_limits == std::vector<Bytes>{std::numeric_limits<Bytes>::max()});
    CHECK(data.rebuilt_bucket_size_limits == std::vector<Bytes>{kMiB, kMiB});
    CHECK(data.forward_compute_time_start == step.begin);
    CHECK(data.backward_compute_time_start - data.forward_compute_time_start ==
          data.forward_compute_time);
    CHECK(data.backward_comm_time_start == step.buckets[0].ready);
    CHECK(data.backward_comm_time_end == step.buckets[1].ended);
    CHECK(data.backward_compute_time_end - data.backward_compute_time_start ==
          data.backward_compute_time);
    CHECK(data.gradient_as_bucket_view);
    CHECK(data.backward_comm_time == step.buckets[1].ended - step.buckets[0].ready);
    CHECK(data.backward_compute_comm_overlap_time == step.buckets[1].ready - step.buckets[0].ready);
    CHECK(data.forward_compute_time > Time{0});
    // One node makes both gradients of the first bucket.
    CHECK(data.backward_compute_time == data.backward_compute_comm_overlap_time);
    CHECK(first.backward_compute_comm_overlap_time == Time{0});  // there is one bucket
    CHECK(data.avg_backward_comm_time == (first.backward_comm_time + data.backward_comm_time) / 2);
  });
}

TEST_CASE("the logging data name hooks, joins, limits, and bytes of unused parameters", "[ddp]") {
  DataParallelWorld world(2, "local");
  world.spawn([&](int) {
    struct HalfImpl : nn::Module {
      explicit HalfImpl(RuntimeContext& torch)
          : used(register_module("used", nn::Linear(torch, 4, 4, kOnOnePe))) {
        register_module("unused", nn::Linear(torch, 4, 4, kOnOnePe));
      }
      Tensor forward(const Tensor& x) const { return used(x); }
      nn::Linear used;
    };
    const nn::ModuleHolder<HalfImpl> half(world.torch);
    DistributedDataParallel ddp(half, {.bucket_cap_mb = 2, .find_unused_parameters = true});
    ddp->register_comm_hook(distributed::ProcessGroup(), nn::parallel::fp16_compress_hook);
    ddp->join([&] { ddp(world.torch.ones({2, 4}, kOnOnePe)).sum().backward(); });
    const auto data = ddp->_get_ddp_logging_data();
    CHECK(data.module_name == "Half");
    CHECK(data.comm_hook == "fp16_compress_hook");
    CHECK(data.join_uneven_inputs);
    CHECK(data.unused_parameter_size == (4 * 4 + 4) * 4);
    CHECK(data.initial_bucket_size_limits == std::vector<Bytes>{Bytes{1} << 20});
    CHECK(data.rebuilt_bucket_size_limits.empty());  // they are never rebuilt
  });
}

TEST_CASE("smaller buckets hide more, and the last one is exposed", "[ddp][timing]") {
  const StepTimes small = step_with(0.5, false);
  const StepTimes large = step_with(25, false);
  CHECK(small.both > large.both);
  CHECK(small.exposed < large.exposed);
  const std::string text = to_string(small);
  for (const char* const word : {"# step 3: ", "exposed  parameters", "  4.bias 4.weight\n",
                                 "# compute only ", "idle 0.0 %"}) {
    CHECK_THAT(text, Catch::Contains(word));
  }
}

}  // namespace
}  // namespace kernbench::test::step_times_test
