// Launches that return to the rank when they are issued: order, times, values and errors
// (ADR-0190).

#include <catch2/catch.hpp>

#include "runtime/distributed/local_registration.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/runtime/stream/queued_topology.h"
#include "test/support/error_text.h"

namespace kernbench::test::queued_launch_test {
namespace {

using Floats = std::vector<float>;

void beyond(tl::Context& tl, tl::Pointer x) {
  tl.load(x, {5}, x.dtype());
}

TEST_CASE("a queued launch takes the host's issue; the host waits where it synchronizes",
          "[stream][timing]") {
  RuntimeContext torch(topology_with_issue(Time{7'000}), kQueued);
  const Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
  torch.launch("k", nothing, x);
  CHECK(torch.engine().now() == Time{7'000});
  torch.launch("k", nothing, x);
  CHECK(torch.engine().now() == Time{14'000});
  torch.ahbm.synchronize();
  // The first one's way to the PE and back to the IO_CPU, the second one's, and to the host.
  CHECK(torch.engine().now() == Time{7'000} + kHostLeg + 4 * kDeviceLeg + kHostLeg);
  REQUIRE(torch.engine().results().size() == 2);
  CHECK(torch.engine().results()[1].start - torch.engine().results()[0].end == 2 * kDeviceLeg);
}

TEST_CASE("a launch that is issued after the last one has ended waits for its own message",
          "[stream][timing]") {
  RuntimeContext torch(topology_with_issue(Time{1'000'000}), kQueued);
  const Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
  torch.launch("k", nothing, x);
  torch.launch("k", nothing, x);
  torch.ahbm.synchronize();
  CHECK(torch.engine().now() == Time{2'000'000} + 2 * (kHostLeg + kDeviceLeg));
}

TEST_CASE("kernels of a stream run in order, and a host read waits for them", "[stream]") {
  RuntimeContext torch(topology_with_issue(), kQueued);
  const Tensor x = torch.zeros({4});
  torch.launch("add_one", add_one, x);
  torch.launch("twice", twice, x);
  torch.launch("add_one", add_one, x);
  CHECK(torch.engine().now() == Time{0});
  CHECK(x.to_vector() == Floats(4, 3));
  CHECK(torch.engine().now() > Time{0});
}

TEST_CASE("copy_ follows what was launched before, and the engine's figures wait", "[stream]") {
  RuntimeContext torch(topology_with_issue(), kQueued);
  Tensor x = torch.zeros({4});
  torch.launch("add_one", add_one, x);
  x.copy_(RuntimeContext::tensor({1, 2, 3, 4}, {4}));
  torch.launch("twice", twice, x);
  CHECK(torch.engine().last_results().size() == 4);
  CHECK(x.to_vector() == Floats{2, 4, 6, 8});
}

TEST_CASE("a kernel with captures blocks, in the order of the stream", "[stream]") {
  RuntimeContext torch(topology_with_issue(), kQueued);
  const Tensor x = torch.zeros({4});
  torch.launch("add_one", add_one, x);
  int runs = 0;
  torch.launch(
      "counts",
      [&](tl::Context& tl, tl::Pointer target) {
        ++runs;
        twice(tl, target);
      },
      x);
  CHECK(runs == 4);
  CHECK(x.to_vector() == Floats(4, 2));
}

TEST_CASE("a queued launch keeps its tensors, also when the device is full", "[stream]") {
  Topology topology = topology_with_issue();
  topology.cube.hbm.capacity = 8 * (1 << 20);  // 4 MiB for each PE's own slice
  RuntimeContext torch(topology, kQueued);
  const TensorOptions large{.dp = DPPolicy::on_one_pe()};
  for (int i = 0; i < 4; ++i) {
    const Tensor x = torch.ones({3 * (1 << 18)}, large);
    torch.launch("add_one", add_one, x);
    if (i == 3) CHECK(x.at({3}) == 2);
  }
}

TEST_CASE("a queued kernel's error comes at the next wait, with the launch's line", "[stream]") {
  RuntimeContext torch(topology_with_issue(), kQueued);
  const Tensor x = torch.zeros({4}, {.name = "x"});
  const auto fails = [&] {
    torch.launch("beyond", beyond, x);
    torch.launch("add_one", add_one, x);  // is dropped
  };
  fails();
  CHECK_THAT(error_of<DeviceError>([&] { torch.ahbm.synchronize(); }),
             Says("KB-M020", "tl.load", "launched as kernel 'beyond' at queued_launch_test.cpp:"));
  CHECK(x.to_vector() == Floats(4, 0));
  torch.launch("add_one", add_one, x);  // the stream works again
  CHECK(x.to_vector() == Floats(4, 1));
  fails();
  CHECK_THAT(error_of<DeviceError>([&] { x.to_vector(); }), Says("KB-M020", "'beyond'"));
  fails();
  CHECK_THAT(error_of<DeviceError>([&] { x.at({0}); }), Says("KB-M020", "'beyond'"));
  fails();
  CHECK_THAT(error_of<DeviceError>([&] { torch.engine().fingerprint(); }), Says("KB-M020"));
  fails();
  CHECK_THAT(error_of<DeviceError>([&] { torch.ahbm.current_stream().synchronize(); }),
             Says("KB-M020"));
}

TEST_CASE("a worker's end waits for what it has launched, and throws its errors", "[stream]") {
  RuntimeContext torch(topology_with_issue(), kQueued);
  const Tensor x = torch.zeros({4});
  torch.multiprocessing.spawn([&](int) { torch.launch("add_one", add_one, x); }, {}, 1);
  CHECK(torch.engine().results().size() == 4);
  CHECK(torch.engine().now() > kHostLeg);
  const auto spawn = [&] {
    torch.multiprocessing.spawn([&](int) { torch.launch("beyond", beyond, x); }, {}, 1);
  };
  CHECK_THAT(error_of<SpawnException>(spawn), Says("KB-R001", "rank 0", "KB-M020", "'beyond'"));
  CHECK(x.to_vector() == Floats(4, 1));
}

TEST_CASE("ranks start when what the driver has launched is done", "[stream]") {
  RuntimeContext torch(topology_with_issue(), kQueued);
  const Tensor x = torch.zeros({4});
  torch.launch("add_one", add_one, x);
  torch.multiprocessing.spawn([&](int) { CHECK(x.to_vector() == Floats(4, 1)); }, {}, 1);
}

TEST_CASE("after a run that failed, the driver's streams work", "[stream]") {
  RuntimeContext torch(topology_with_issue(), kQueued);
  const Tensor x = torch.zeros({4});
  distributed::register_local_backend();
  torch.distributed.init_process_group("local");
  CHECK_THROWS_AS(run_ranks(torch, 2,
                            [&](int rank) {
                              torch.launch("add_one", add_one, x);
                              if (rank == 0) throw std::runtime_error("boom");
                              torch.distributed.barrier();
                            }),
                  SpawnException);
  torch.launch("twice", twice, x);
  CHECK_NOTHROW(torch.ahbm.synchronize());
}

TEST_CASE("launches that block return when they are done, and cost the host as much", "[stream]") {
  RuntimeContext torch(topology_with_issue(Time{7'000}), {.launch_blocking = true});
  const Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
  torch.launch("k", nothing, x);
  CHECK(torch.engine().now() == Time{7'000} + 2 * (kHostLeg + kDeviceLeg));
}

TEST_CASE("a launch returns when it is issued, unless the environment or else the topology says no",
          "[stream]") {
  const auto returns_at = [](const char* environment, bool by_topology) {
    environment == nullptr ? unsetenv("KERNBENCH_LAUNCH_BLOCKING")
                           : setenv("KERNBENCH_LAUNCH_BLOCKING", environment, 1);
    Topology topology = topology_with_issue(Time{7'000});
    topology.launch.blocking = by_topology;
    RuntimeContext torch(topology);
    unsetenv("KERNBENCH_LAUNCH_BLOCKING");
    const Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
    torch.launch("k", nothing, x);
    return torch.engine().now();
  };
  const Time done = Time{7'000} + 2 * (kHostLeg + kDeviceLeg);
  CHECK(returns_at(nullptr, false) == Time{7'000});
  CHECK(returns_at("", false) == Time{7'000});
  CHECK(returns_at("0", false) == Time{7'000});
  CHECK(returns_at("1", false) == done);
  CHECK(returns_at(nullptr, true) == done);
  CHECK(returns_at("", true) == done);
  CHECK(returns_at("0", true) == Time{7'000});
  CHECK(returns_at("1", true) == done);
  CHECK_THROWS_AS(returns_at("2", false), UsageError);
  unsetenv("KERNBENCH_LAUNCH_BLOCKING");
}

}  // namespace
}  // namespace kernbench::test::queued_launch_test
