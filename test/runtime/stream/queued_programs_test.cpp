// Tests programs with queued launches beyond the first one: loops, several streams, host copies,
// profiles (ADR-0190).

#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/components/hbm_allocator.h"
#include "test/runtime/stream/queued_topology.h"
#include "test/support/error_text.h"

namespace kernbench::test::queued_programs_test {
namespace {

using Floats = std::vector<float>;

const TensorOptions kOnOnePe{.dp = DPPolicy::on_one_pe(), .name = "x"};

TEST_CASE("a loop of launches runs ahead of its device by 1,024, as on CUDA", "[stream]") {
  RuntimeContext torch(topology_with_issue());
  const Tensor x = torch.zeros({4}, kOnOnePe);
  for (int i = 0; i < 1024; ++i) torch.launch("add_one", add_one, x);
  CHECK(torch.engine().now() == Time{0});
  for (std::size_t i = 0; i < 1000; ++i) {
    torch.launch("add_one", add_one, x);
    REQUIRE(simulation_of(torch).results().size() >= i);
  }
  CHECK(torch.engine().now() > Time{0});
  CHECK(x.to_vector() == Floats(4, 2024));
}

TEST_CASE("what the host was told earlier comes before what it launches", "[stream]") {
  RuntimeContext torch(topology_with_issue());
  const Tensor x = torch.zeros({4}, kOnOnePe);
  Tensor other = torch.zeros({100'000}, kOnOnePe);
  const ahbm::Stream s = torch.ahbm.Stream();
  torch.launch("add_one", add_one, x);
  const auto guard = torch.ahbm.stream(s);
  other.copy_(RuntimeContext::tensor(Floats(100'000, 1), {100'000}));  // longer than the kernel
  CHECK(torch.ahbm.default_stream().query());
  torch.ahbm.default_stream().synchronize();
  torch.launch("add_one", add_one, x);
  CHECK(x.to_vector() == Floats(4, 2));
}

// Touches x on the default stream while a kernel of another one writes it.
template <class Touch>
std::string race_with(Touch touch) {
  RuntimeContext torch(topology_with_issue());
  Tensor x = torch.zeros({4}, kOnOnePe);
  const ahbm::Stream s = torch.ahbm.Stream();
  {
    const auto guard = torch.ahbm.stream(s);
    torch.launch("add_one", add_one, x);
  }
  return error_of<DeviceError>([&] {
    touch(torch, x);
    torch.ahbm.synchronize();
  });
}

TEST_CASE("copy_ and kernels with captures race with other streams too", "[stream]") {
  CHECK_THAT(race_with([](RuntimeContext&, Tensor& x) {
               x.copy_(RuntimeContext::tensor(Floats(4, 1), {4}));
             }),
             Says("KB-M031", "copy_", "kernel 'add_one' at queued_programs_test.cpp:"));
  CHECK_THAT(race_with([](RuntimeContext& torch, const Tensor& x) {
               int runs = 0;
               torch.launch(
                   "captures",
                   [&runs](tl::Context& tl, tl::Pointer p) {
                     ++runs;
                     add_one(tl, p);
                   },
                   x);
             }),
             Says("KB-M031", "kernel 'captures'", "kernel 'add_one'"));
}

TEST_CASE("memory that the host has given up is not used again before both streams are done",
          "[stream]") {
  RuntimeContext torch(topology_with_issue());
  const ahbm::Stream s = torch.ahbm.Stream();
  const Tensor result = torch.zeros({4}, kOnOnePe);
  Bytes held = 0;
  {
    const Tensor x = torch.ones({4}, kOnOnePe);
    held = simulation_of(torch).allocator(0).allocated();
    torch.launch("add_one", add_one, x);
    s.wait_stream(torch.ahbm.current_stream());
    const auto guard = torch.ahbm.stream(s);
    torch.launch(
        "copy",
        [](tl::Context& tl, tl::Pointer to, tl::Pointer from) {
          tl.store(to, tl.load(from, {4}, from.dtype()));
        },
        result, x);
  }
  CHECK(simulation_of(torch).allocator(0).allocated() == held);  // x is free for the host alone
  torch.full({4}, 7, kOnOnePe);
  torch.ahbm.synchronize();
  CHECK(simulation_of(torch).allocator(0).allocated() < held);
  CHECK(result.to_vector() == Floats(4, 2));
}

TEST_CASE("a profile has a launch's wait in its queue, and the host's issue", "[stream][profile]") {
  constexpr Time kIssue{7'000};
  RuntimeContext torch(topology_with_issue(kIssue), {.profile = true});
  const Tensor x = torch.zeros({4}, kOnOnePe);
  for (int i = 0; i < 3; ++i) torch.launch("nothing", nothing, x);
  const runtime::Profile profile = torch.engine().profile();
  CHECK(profile.duration() == kIssue + 2 * kHostLeg + 6 * kDeviceLeg);
  // The second one waits for the first one's two legs, less what it was issued later.
  const runtime::LaunchTime& time = profile.launches;
  CHECK(time.queued == 3 * kHostLeg + (1 + 2) * (2 * kDeviceLeg - kIssue));
  CHECK(time.launch == 3 * kDeviceLeg);
  CHECK(time.back == 3 * (kDeviceLeg + kHostLeg));
  CHECK(time.skew + time.kernel == Time{0});
  CHECK(profile.path.of(sim::Cause::host) == kIssue);
  CHECK(profile.path.of(sim::Cause::other) == Time{0});
  CHECK(torch.engine().explain().find("host issue") != std::string::npos);
}

TEST_CASE("where the host issues slower than the device works, the path is the host's",
          "[stream][profile]") {
  constexpr Time kIssue{1'000'000};
  RuntimeContext torch(topology_with_issue(kIssue), {.profile = true});
  const Tensor x = torch.zeros({4}, kOnOnePe);
  for (int i = 0; i < 5; ++i) torch.launch("nothing", nothing, x);
  const runtime::Profile profile = torch.engine().profile();
  CHECK(profile.path.of(sim::Cause::host) == 5 * kIssue);
  CHECK(profile.duration() == 5 * kIssue + 2 * (kHostLeg + kDeviceLeg));
}

}  // namespace
}  // namespace kernbench::test::queued_programs_test
