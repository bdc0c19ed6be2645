// Kernels that never end, and such as only take long.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "runtime/guards/command_budget.h"
#include "runtime/guards/run_limits.h"
#include "runtime/launch/kernel_launch.h"
#include "sim_engine/components/kernel_run.h"
#include "test/runtime/fiber/run_in_child.h"
#include "test/runtime/tl/composite_under_test.h"
#include "test/runtime/tl/tl_under_test.h"

namespace kernbench::test::endless_kernel_test {
namespace {

constexpr DType f16 = DType::f16;
constexpr std::int64_t kOwn = runtime::CommandBudget::kOwnCommands;

// Launches `kernel` on the two PEs of a cube.
template <class Kernel>
std::string error_with_limit(std::int64_t limit, Kernel kernel) {
  RuntimeContext torch(round_topology(), {.command_limit = limit});
  const Tensor x = torch.ones({64}, {.dtype = f16, .dp = {.pe = Shard::column_wise}, .name = "x"});
  return error_of<DeadlockError>([&] {
    torch.launch("k", kernel, x);
    torch.ahbm.synchronize();
  });
}

void issue(tl::Context& tl, const tl::Pointer& p, std::int64_t count) {
  const tl::Tensor value = tl.load(p, {1}, f16);
  for (std::int64_t i = 1; i < count; ++i) tl.store(p, value);
}

// run_limits.h is not installed, so the figures stand in RuntimeOptions once more.  RuntimeOptions
// is no literal type, so no static_assert can compare them.
TEST_CASE("the limits of RuntimeOptions are those of RunLimits", "[tl][endless]") {
  CHECK(RuntimeOptions().command_limit == runtime::RunLimits().commands);
  CHECK(RuntimeOptions().kernel_time_limit == runtime::RunLimits().kernel_time);
  CHECK(RuntimeOptions().rank_notice_time == runtime::RunLimits().rank_notice);
}

TEST_CASE("a kernel that issues commands for ever is a livelock", "[tl][endless][error]") {
  const std::string text = error_with_limit(1000, [](tl::Context& tl, tl::Pointer p) {
    const tl::Tensor value = tl.load(p, {1}, f16);
    while (tl.program_id() == 1) tl.store(p, value);
  });
  CHECK_THAT(text, Says("KB-D002", "tl.store in kernel 'k' on sip0.cube0.pe1", "command 51001",
                        "RuntimeOptions::command_limit, which is 1000"));
}

TEST_CASE("a livelock exits with 20, and the context works on", "[tl][endless][error]") {
  RuntimeContext torch(round_topology(), {.command_limit = 10});
  Tensor x = torch.ones({4}, {.dp = DPPolicy::on_one_pe()});
  try {
    torch.launch(
        "k",
        [](tl::Context& tl, tl::Pointer) {
          for (;;) tl.zeros({0}, f16);
        },
        x);
    torch.ahbm.synchronize();
    FAIL("no error");
  } catch (const DeadlockError& error) {
    CHECK(error.exit_code() == ExitCode::deadlock);
  }
  torch.launch(
      "good", [](tl::Context& tl, tl::Pointer p) { tl.store(p, tl.load(p, {4}, DType::f32) * 3); },
      x);
  CHECK(x.to_vector() == Elements(4, 3));
}

TEST_CASE("commands up to the limit are no livelock, one more is", "[tl][endless][error]") {
  const auto with = [](std::int64_t count) {
    return error_with_limit(100, [=](tl::Context& tl, tl::Pointer p) {
      if (tl.program_id() == 0) issue(tl, p, count);
    });
  };
  CHECK(with(kOwn + 100) == "no error");
  CHECK_THAT(with(kOwn + 101),
             Says("KB-D002", "tl.store in kernel 'k' on sip0.cube0.pe0", "command 50101"));
}

TEST_CASE("the commands of operators are not limited", "[tl][endless]") {
  RuntimeContext torch(round_topology(), {.command_limit = 100});
  const Tensor x = torch.ones({4}, {.dtype = f16, .dp = DPPolicy::on_one_pe()});
  const auto with = [&](bool has_end) {
    return error_of<DeadlockError>([&] {
      runtime::launch(
          runtime::LaunchName::of_operator("k"), x, {x},
          [&](tl::Context& tl) { issue(tl, runtime::shard_pointer(x, tl.location()), kOwn + 101); },
          {.has_end = has_end});
      torch.ahbm.synchronize();
    });
  };
  CHECK_THAT(with(false), Says("KB-D002"));
  CHECK(with(true) == "no error");
}

TEST_CASE("kernels of a launch share what exceeds their own, the next launch has it again",
          "[tl][endless][error]") {
  const auto with = [](std::int64_t first, std::int64_t second) {
    return error_with_limit(100, [=](tl::Context& tl, tl::Pointer p) {
      issue(tl, p, tl.program_id() == 0 ? first : second);
    });
  };
  CHECK(with(kOwn + 60, kOwn + 40) == "no error");
  CHECK_THAT(with(kOwn + 60, kOwn + 41), Says("KB-D002"));
  CHECK(with(kOwn, kOwn + 100) == "no error");

  RuntimeContext torch(round_topology(), {.command_limit = 100});
  const Tensor x = torch.ones({4}, {.dtype = f16, .dp = DPPolicy::on_one_pe()});
  for (int i = 0; i < 3; ++i) {
    torch.launch(
        "k", [](tl::Context& tl, tl::Pointer p) { issue(tl, p, kOwn + 100); }, x);
  }
}

TEST_CASE("every kind of command counts", "[tl][endless][error]") {
  const auto check_ends = [](auto body) {
    const auto kernel = [=](tl::Context& tl, tl::Pointer p) {
      const tl::Tensor x = tl.load(p, {4, 4}, f16);
      while (tl.program_id() == 0) body(tl, p, x);
    };
    CHECK_THAT(error_with_limit(5, kernel), Says("KB-D002"));
  };
  check_ends([](auto& tl, auto p, auto&) { tl.load(p, {1}, f16); });
  check_ends([](auto& tl, auto p, auto&) { tl.load(p, {2, 2}, f16, 4); });
  check_ends([](auto& tl, auto p, auto& x) { tl.store(p, x); });
  check_ends([](auto& tl, auto p, auto& x) { tl.store(p, x, 4); });
  check_ends([](auto&, auto, auto& x) { x + x; });
  check_ends([](auto& tl, auto, auto& x) { tl.softmax(x); });
  check_ends([](auto& tl, auto, auto& x) { tl.dot(x, x); });
  check_ends([](auto& tl, auto, auto& x) { tl.trans(x); });
  check_ends([](auto& tl, auto, auto&) { tl.arange(0, 2); });
}

TEST_CASE("no limit, if it is 0", "[tl][endless]") {
  CHECK(error_with_limit(0, [](tl::Context& tl, tl::Pointer p) {
          if (tl.program_id() == 0) issue(tl, p, 3 * kOwn);
        }) == "no error");
}

TEST_CASE("a kernel is at most 1,024 commands ahead of its PE", "[tl][endless]") {
  TlUnderTest k;
  const tl::Pointer p = k.input({1, 2});
  int most = 0;
  Time took{0};
  k.run([&](tl::Context& tl) {
    const tl::Tensor x = tl.load(p, {1}, DType::f32);
    tl.drain();
    const Time begin = k.torch.engine().now();
    for (int i = 0; i < 5000; ++i) {
      x + x;  // 1 ns each, one after the other
      most = std::max(most, tl.run().outstanding());
    }
    tl.drain();
    took = k.torch.engine().now() - begin;
  });
  CHECK(most == 1024);
  CHECK(took == Time{5'000'000});  // and PE_MATH never runs out of them
}

TEST_CASE("a kernel may be told to be fewer commands ahead", "[tl][endless]") {
  TlUnderTest k;
  const tl::Pointer p = k.input({1, 2});
  std::vector<int> most;
  k.run([&](tl::Context& tl) {
    for (const int limit : {3, 0, 5000}) {
      tl.limit_commands_under_way(limit);
      most.push_back(0);
      for (int i = 0; i < 2000; ++i) {
        tl.load(p, {1}, DType::f32);
        most.back() = std::max(most.back(), tl.run().outstanding());
      }
      tl.drain();
    }
  });
  CHECK(most == std::vector<int>{3, 1, 1024});
}

// A child each, since the watchdog ends the process.

using runtime::run_in_child;

TEST_CASE("a kernel that never yields ends the process, by name", "[tl][endless][watchdog]") {
  const auto ended = run_in_child([] {
    RuntimeContext torch(round_topology(), {.kernel_time_limit = std::chrono::milliseconds(200)});
    const Tensor x = torch.ones({64}, {.dp = {.pe = Shard::column_wise}});
    torch.launch(
        "spins",
        [](tl::Context& tl, tl::Pointer p) {
          const tl::Tensor loaded = tl.load(p, {1}, DType::f32);
          tl.drain();
          volatile bool goes_on = tl.program_id() == 1;
          while (goes_on) {
          }
        },
        x);
  });
  CHECK(ended.exit_code == 20);
  CHECK_THAT(ended.standard_error, Says("KB-D003", "'spins' on sip0.cube0.pe1", "0.2 s",
                                        "RuntimeOptions::kernel_time_limit"));
}

TEST_CASE("views for ever, and a kernel that sleeps, do not yield either",
          "[tl][endless][watchdog]") {
  const auto exit_code = [](auto body) {
    return run_in_child([&] {
             RuntimeContext torch(round_topology(),
                                  {.kernel_time_limit = std::chrono::milliseconds(50)});
             const Tensor x = torch.ones({4}, {.dp = DPPolicy::on_one_pe()});
             torch.launch("k", body, x);
           })
        .exit_code;
  };
  CHECK(exit_code([](tl::Context& tl, tl::Pointer) {
          tl::Tensor x = tl.zeros({4}, f16);
          for (;;) x = tl.reshape(tl.reshape(x, {2, 2}), {4});
        }) == 20);
  CHECK(exit_code([](tl::Context&, tl::Pointer) { pause(); }) == 20);
}

// Long enough for a watchdog to see, were it to look at what it must not.
template <class Body>
int exit_code_of(std::chrono::milliseconds limit, Body body) {
  return run_in_child([&] {
           RuntimeContext torch(round_topology(), {.kernel_time_limit = limit});
           body(torch);
         })
      .exit_code;
}

void compute() {  // for some 100 ms
  volatile std::uint32_t x = 1;
  for (int i = 0; i < 60'000'000; ++i) x = x * 5 + 1;
}

TEST_CASE("whoever is not watched may compute: a rank, the host, a kernel without a limit",
          "[tl][endless][watchdog]") {
  using std::chrono::milliseconds;
  const auto warm = [](RuntimeContext& torch) {
    const Tensor x = torch.ones({4}, {.dp = DPPolicy::on_one_pe()});
    torch.launch(
        "k", [](tl::Context&, tl::Pointer) {}, x);
  };
  CHECK(exit_code_of(milliseconds(10), [&](RuntimeContext& torch) {
          warm(torch);
          compute();
          torch.multiprocessing.spawn([](int) { compute(); }, {}, 1);
        }) == 0);
  CHECK(exit_code_of(milliseconds(0), [](RuntimeContext& torch) {
          const Tensor x = torch.ones({4}, {.dp = DPPolicy::on_one_pe()});
          torch.launch(
              "k", [](tl::Context&, tl::Pointer) { compute(); }, x);
        }) == 0);
}

// [8, 8] x [8, 8] in tiles of 1 x 1: 64 results of 8 products, 3 parts each, and a store.
constexpr std::int64_t kParts = 64 * (8 * 3 + 1);

void multiply(tl::Context& tl, const tl::Pointer& a, const tl::Pointer& c, int tile) {
  tl.composite(composite_of(a, a, c, {8, 8, 8}, {tile, tile, tile}));
}

std::string error_of_composites(std::int64_t limit, std::int64_t before, int composites) {
  RuntimeContext torch(round_topology(), {.command_limit = limit});
  const Tensor a = torch.ones({8, 8}, {.dp = DPPolicy::on_one_pe()});
  const Tensor c = torch.ones({8, 8}, {.dp = DPPolicy::on_one_pe()});
  const auto kernel = [&](tl::Context& tl, tl::Pointer pa, tl::Pointer pc) {
    for (std::int64_t i = 0; i < before; ++i) tl.load(pa, {1}, DType::f32);
    for (int i = 0; i < composites; ++i) multiply(tl, pa, pc, 1);
  };
  return error_of<Error>([&] { torch.launch("k", kernel, a, c); });
}

TEST_CASE("the parts of a composite count as commands", "[tl][endless][error]") {
  constexpr std::int64_t kBefore = kOwn - kParts - 1;
  CHECK(error_of_composites(1, kBefore, 1) == "no error");
  CHECK(error_of_composites(1, kBefore + 1, 1) == "no error");
  const std::string text = error_of_composites(1, kBefore + 2, 1);
  CHECK_THAT(text,
             Says("KB-D002", "tl.composite in kernel 'k' on sip0.cube0.pe0", "command 50002"));
  CHECK_THAT(error_of_composites(100, 0, 1'000'000), Says("KB-D002", "tl.composite"));
  CHECK(error_of_composites(0, 0, 40) == "no error");
}

TEST_CASE("a composite of more parts than any kernel may have is refused", "[tl][endless][error]") {
  RuntimeContext torch(round_topology(), {.command_limit = 1000});
  const Tensor a = torch.ones({30, 30}, {.dp = DPPolicy::on_one_pe()});
  const Tensor c = torch.ones({30, 30}, {.dp = DPPolicy::on_one_pe()});
  const auto multiply = [](int tile) {
    return [=](tl::Context& tl, tl::Pointer pa, tl::Pointer pc) {
      auto gemm = composite_of(pa, pa, pc, {30, 30, 30}, {tile, tile, tile});
      gemm.bias = pa;
      gemm.activation = tl::Activation::relu;
      tl.composite(gemm);
    };
  };
  // 900 results of 30 products, 3 parts each; a bias, an epilogue and a store.
  CHECK_THROWS_MATCHES(
      torch.launch("k", multiply(1), a, c), DeviceError,
      Says("KB-K033", "m 1, n 1, k 1", "83700", "51000", "RuntimeOptions::command_limit"));
  torch.launch("k", multiply(2), a, c);
  CHECK(c.to_vector() == Elements(900, 31));
}

}  // namespace
}  // namespace kernbench::test::endless_kernel_test
