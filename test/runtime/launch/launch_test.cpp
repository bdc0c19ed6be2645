#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/components/hbm_allocator.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::launch_test {
namespace {

using Floats = std::vector<float>;

// x += 1 on this PE's shard of n elements.
void add_one(tl::Context& tl, tl::Pointer x, tl::Pointer ones, std::int64_t n) {
  tl.store(x, tl.load(x, {n}, x.dtype()) + tl.load(ones, {n}, x.dtype()));
}

TEST_CASE("a kernel runs on every PE that holds a part of the first tensor", "[launch]") {
  RuntimeContext torch(small_topology());
  torch.ahbm.set_device(1);
  const Tensor x = torch.zeros({3}, {.dp = {.cube = Shard::row_wise, .pe = Shard::row_wise}});
  std::vector<std::string> seen;
  torch.launch(
      "k",
      [&](tl::Context& tl, tl::Pointer) {
        seen.push_back(fmt::format("{} of {} on {}", tl.program_id(), tl.num_programs(),
                                   to_string(tl.location())));
        CHECK(tl.sip_id() == 1);
        CHECK(tl.cube_id() == tl.program_id() / 2);
        CHECK(tl.pe_id() == tl.program_id(0) % 2);
      },
      x);
  std::ranges::sort(seen);
  // 3 elements in cubes of 2 and 1: the last PE holds nothing.
  CHECK(seen == std::vector<std::string>{"0 of 3 on sip1.cube0.pe0", "1 of 3 on sip1.cube0.pe1",
                                         "2 of 3 on sip1.cube1.pe0"});
}

TEST_CASE("arguments arrive as pointers to the PE's own shards, and as they are", "[launch]") {
  RuntimeContext torch(small_topology());
  const DPPolicy dp{.cube = Shard::column_wise, .pe = Shard::column_wise};
  Tensor x = torch.zeros({8}, {.dp = dp});
  x.copy_(RuntimeContext::tensor({1, 2, 3, 4, 5, 6, 7, 8}, {8}));
  const Tensor ones = torch.ones({8}, {.dp = dp});
  torch.launch("add_one", add_one, x, ones, 2);
  CHECK(x.to_vector() == Floats{2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("a PE that holds no part of a later tensor gets a pointer to nothing", "[launch]") {
  RuntimeContext torch(small_topology());
  const Tensor x = torch.zeros({4}, {.name = "x"});
  const Tensor y = torch.zeros({4}, {.dp = DPPolicy::on_one_pe(), .name = "y"});
  CHECK_THAT(error_of<DeviceError>([&] {
               torch.launch(
                   "k",
                   [](tl::Context& tl, tl::Pointer, tl::Pointer other) {
                     if (tl.program_id() == 3) tl.load(other, {4}, DType::f32);
                   },
                   x, y);
               torch.ahbm.synchronize();
             }),
             test::Says("KB-M020", "tl.load", "'k'", "sip0.cube1.pe1", "0", "1", "2"));
}

TEST_CASE("another axis of a launch is refused, with what a PE's place is called", "[launch]") {
  RuntimeContext torch(small_topology());
  const Tensor x = torch.zeros({4});
  const auto refused = [&](auto ask) {
    return error_of<DeviceError>([&] {
      torch.launch(
          "k", [&](tl::Context& tl, tl::Pointer) { ask(tl); }, x);
    });
  };
  CHECK_THAT(refused([](tl::Context& tl) { tl.program_id(1); }),
             test::Says("KB-K022", "tl.program_id", "1", "'k'", "sip0.cube0.pe0", "0", "4 PEs"));
  CHECK(refused([](tl::Context& tl) { tl.program_id(-1); }).starts_with("[KB-K022] "));
  CHECK_THAT(refused([](tl::Context& tl) { tl.num_programs(2); }),
             test::Says("KB-K022", "tl.num_programs", "2", "'k'", "sip0.cube0.pe0"));
}

TEST_CASE("a launch on a tensor without elements returns at once", "[launch]") {
  RuntimeContext torch(small_topology());
  int runs = 0;
  torch.launch(
      "k", [&](tl::Context&, tl::Pointer) { ++runs; }, torch.zeros({0}));
  CHECK(runs == 0);
  CHECK(torch.engine().now() == Time{0});
}

// Host link 200 ns, UCIe 5 ns per hop, a PE's NoC port 2 ns each way; 64 B take 6.4 ns on the host
// link, 0.64 on UCIe and 3.2 on the NoC.
TEST_CASE("an empty kernel takes the way of its launch and of its completion", "[launch][timing]") {
  RuntimeContext torch(small_topology());
  const Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
  torch.launch(
      "k", [](tl::Context&, tl::Pointer) {}, x);
  CHECK(torch.engine().now() == Time{0});
  torch.ahbm.synchronize();
  const Time one_way{200'000 + 6'400 + 5'000 + 640 + 2'000 + 3'200};
  CHECK(torch.engine().now() == 2 * one_way);
  REQUIRE(torch.engine().results().size() == 1);
  CHECK(torch.engine().results()[0].start == one_way);
  CHECK(torch.engine().results()[0].end == one_way);
}

TEST_CASE("critical_pe_exec_ns is the slowest PE's time in the last launch", "[launch][timing]") {
  RuntimeContext torch(small_topology());
  CHECK(torch.engine().critical_pe_exec_ns() == 0);
  const Tensor x = torch.zeros({1000});
  const auto kernel = [](tl::Context& tl, tl::Pointer source, std::int64_t n) {
    tl.load(source, {n * (1 + tl.program_id())}, DType::f32);
  };
  torch.launch("long", kernel, x, 250);
  torch.launch("short", kernel, x, 100);
  // PE 3 loads 1600 B over its 20 GB/s port: 50 + 2 + 1 ns and 80 ns.
  CHECK(torch.engine().critical_pe_exec_ns() == 133);
  CHECK(torch.engine().last_results().size() == 4);
  torch.launch("nowhere", kernel, torch.zeros({0}), 100);
  CHECK(torch.engine().critical_pe_exec_ns() == 0);
  CHECK(torch.engine().results().size() == 8);
  CHECK(torch.engine().results().size() == 8);
}

TEST_CASE("results of kernels long past are dropped, those of the last operation are not",
          "[launch]") {
  constexpr std::size_t kLeast = runtime::Simulation::kLeastResults;
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 1, 1, 8, 8), {.data = false});
  const Tensor x = torch.zeros({128});
  const std::size_t pes = x.shards().size();
  REQUIRE(kLeast % pes == 0);
  const std::size_t launches = 2 * kLeast / pes;
  for (std::size_t i = 0; i < launches; ++i)
    torch.launch(
        "nothing", [](tl::Context&, tl::Pointer) {}, x);
  CHECK(torch.engine().results().size() == 2 * kLeast);
  torch.launch(
      "nothing", [](tl::Context&, tl::Pointer) {}, x);
  CHECK(torch.engine().results().size() == kLeast + pes);
  CHECK(torch.engine().last_results().size() == pes);
  CHECK(torch.engine().results().back().end == torch.engine().last_results().back().end);
}

TEST_CASE("launches of two ranks overlap in simulated time", "[launch][timing]") {
  const auto time_with = [](int ranks) {
    RuntimeContext torch(small_topology(), {.launch_blocking = true});
    run_on_devices(torch, ranks, [&](int) {
      const Tensor x = torch.zeros({2000}, {.dp = DPPolicy::on_one_pe()});
      for (int i = 0; i < 3; ++i) {
        torch.launch(
            "k", [](tl::Context& tl, tl::Pointer source) { tl.load(source, {2000}, DType::f32); },
            x);
      }
    });
    return torch.engine().now();
  };
  const Time alone = time_with(1);
  CHECK(alone == 3 * Time{2 * 217'240 + 453'000});
  CHECK(time_with(2) == alone);
}

TEST_CASE("launches of one rank follow each other", "[launch]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
  const Tensor ones = torch.ones({4}, {.dp = DPPolicy::on_one_pe()});
  for (int i = 0; i < 5; ++i) torch.launch("add_one", add_one, x, ones, 4);
  CHECK(x.to_vector() == Floats{5, 5, 5, 5});
}

TEST_CASE("what a kernel throws is thrown by launch", "[launch][error]") {
  RuntimeContext torch(small_topology());
  const Tensor x = torch.zeros({4});
  const auto launch_throwing = [&](auto exception, int pe) {
    torch.launch(
        "bad",
        [=](tl::Context& tl, tl::Pointer) {
          if (tl.program_id() == pe) throw exception;
        },
        x);
  };
  CHECK_THAT(error_of<DeviceError>([&] { launch_throwing(std::runtime_error("boom"), 0); }),
             test::Says("KB-K001", "'bad'", "sip0.cube0.pe0", "boom"));
  CHECK_THAT(error_of<DeviceError>([&] { launch_throwing(std::runtime_error("boom"), 3); }),
             test::Says("KB-K001", "'bad'", "sip0.cube1.pe1", "boom"));
  CHECK_THAT(error_of<DeviceError>([&] { launch_throwing(42, 1); }),
             test::Says("KB-K001", "'bad'", "sip0.cube0.pe1"));
  CHECK(error_of<UsageError>([&] { launch_throwing(UsageError("KB-U001", "as it is"), 1); }) ==
        "[KB-U001] as it is");
}

void bad(tl::Context& tl, tl::Pointer source) {
  tl.load(source, {4}, DType::f32);
  if (tl.program_id() == 2) throw std::runtime_error("boom");
}

TEST_CASE("after a kernel that failed the tensor can be read, launched on and freed",
          "[launch][error]") {
  RuntimeContext torch(small_topology());
  {
    Tensor x = torch.full({4}, 1);
    const Tensor ones = torch.ones({4});
    for (int i = 0; i < 3; ++i) {
      torch.launch("bad", bad, x);
      CHECK_THROWS_AS(torch.ahbm.synchronize(), DeviceError);
      torch.launch("add_one", add_one, x, ones, 4);
      CHECK(x.shard_to_vector(2)[0] == static_cast<float>(2 + i));
    }
  }
  CHECK(simulation_of(torch).allocator(0).allocated() == 0);
}

TEST_CASE("a rank that catches what its kernel threw goes on, and so do the others",
          "[launch][error]") {
  RuntimeContext torch(small_topology());
  std::vector<float> sums;
  run_on_devices(torch, 2, [&](int rank) {
    Tensor x = torch.full({4}, 1);
    const Tensor ones = torch.ones({4});
    if (rank == 0) {
      torch.launch("bad", bad, x);
      CHECK_THROWS_AS(torch.ahbm.synchronize(), DeviceError);
    }
    torch.launch("add_one", add_one, x, ones, 4);
    sums.push_back(x.to_vector()[0]);
  });
  CHECK(sums == Floats{2, 2});
}

TEST_CASE("kernels cannot launch kernels, and no read or copy waits inside one",
          "[launch][error]") {
  RuntimeContext torch(small_topology());
  Tensor x = torch.zeros({4}, {.dp = DPPolicy::on_one_pe()});
  const auto error_in_kernel = [&](const std::function<void()>& action) {
    return error_of<CollectiveError>([&] {
      torch.launch(
          "outer", [&](tl::Context&, tl::Pointer) { action(); }, x);
    });
  };
  CHECK_THAT(error_in_kernel([&] {
               torch.launch(
                   "inner", [](tl::Context&, tl::Pointer) {}, x);
             }),
             test::Says("KB-R012", "launch of 'inner'", "inside kernel 'outer'"));
  CHECK_THAT(error_in_kernel([&] { x.to_vector(); }),
             test::Says("KB-R012", "to_vector", "'tensor0'", "'outer'"));
  CHECK_THAT(error_in_kernel([&] {
               x.copy_(RuntimeContext::tensor({1, 2, 3, 4}, {4}));
             }),
             test::Says("KB-R012", "copy_", "'tensor0'", "'outer'"));
}

TEST_CASE("a device that is not there is refused", "[launch][error]") {
  RuntimeContext torch(small_topology());
  CHECK(torch.ahbm.device_count() == 2);
  CHECK_THAT(error_of<CollectiveError>([&] { torch.ahbm.set_device(2); }),
             test::Says("KB-R003", "2", "0", "1"));
  CHECK_THAT(error_of<CollectiveError>([&] { torch.accelerator.set_device_index(-1); }),
             test::Says("KB-R003", "1", "0"));
  torch.accelerator.set_device_index(1);
  CHECK(torch.ahbm.current_device() == 1);
  CHECK(torch.accelerator.current_device_index() == 1);
}

TEST_CASE("each rank has a device of its own, 0 at first", "[launch]") {
  RuntimeContext torch(small_topology());
  torch.ahbm.set_device(1);
  std::vector<int> devices;
  run_ranks(torch, 2, [&](int rank) {
    devices.push_back(torch.ahbm.current_device());
    torch.ahbm.set_device(rank);
    torch.zeros({1}).copy_(RuntimeContext::tensor({1}, {1}));  // others run meanwhile
    devices.push_back(torch.ahbm.current_device());
  });
  CHECK(devices == std::vector<int>{0, 0, 0, 1});
  CHECK(torch.ahbm.current_device() == 1);
}

}  // namespace
}  // namespace kernbench::test::launch_test
