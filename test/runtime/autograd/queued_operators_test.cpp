// Operators and their gradients, on streams (ADR-0190).

#include <catch2/catch.hpp>
#include <tuple>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::queued_operators_test {
namespace {

using Floats = std::vector<float>;

Topology small_topology() {
  Topology topology = round_topology(SipTopology::ring_1d, 2, 1, 2, 1);
  topology.system.host_issue = Time{1'000};
  return topology;
}

struct Outcome {
  Floats y;
  Floats of_x;
  Floats of_w;
  std::size_t kernels = 0;
  Time time{0};
  Time issued{0};  // the host's time when it had issued all
};

// Uses x twice, so that gradients are added up.
Outcome run(bool blocking) {
  RuntimeContext torch(small_topology(), {.launch_blocking = blocking});
  Tensor x = torch.zeros({4, 4});
  x.copy_(RuntimeContext::tensor({1, -2, 3, -4, 5, -6, 7, -8, 1, 2, 3, 4, -1, -2, -3, -4}, {4, 4}));
  x.requires_grad_();
  const Tensor w = torch.full({4, 4}, 0.5).requires_grad_();
  const Time begin = torch.engine().now();
  for (int step = 0; step < 2; ++step) {
    const Tensor h = relu(matmul(x, w));
    const Tensor y = nn::functional::softmax(h + x) * x;
    sum(y * y).backward();
  }
  Outcome outcome;
  outcome.issued = torch.engine().now() - begin;
  torch.ahbm.synchronize();
  outcome.time = torch.engine().now() - begin;
  outcome.of_x = x.grad().to_vector();
  outcome.of_w = w.grad().to_vector();
  outcome.y = matmul(x, w).to_vector();
  outcome.kernels = torch.engine().results().size();
  return outcome;
}

TEST_CASE("queued operators run the same kernels, with the same values, in less time",
          "[stream][autograd]") {
  const Outcome blocking = run(true);
  const Outcome queued = run(false);
  CHECK(queued.y == blocking.y);
  CHECK(queued.of_x == blocking.of_x);
  CHECK(queued.of_w == blocking.of_w);
  CHECK(queued.kernels == blocking.kernels);
  CHECK(queued.time < blocking.time);
  CHECK(queued.issued < queued.time);
  CHECK(blocking.issued == blocking.time);
}

TEST_CASE("compiled operators keep to the stream on which they were issued", "[stream][compile]") {
  RuntimeContext torch(small_topology(), {.launch_blocking = GENERATE(true, false)});
  const Tensor x = torch.full({4, 4}, 3);
  const auto other = torch.ahbm.Stream();
  const auto on_two_streams = [&](const Tensor& a) {
    const Tensor before = a * 2 + 1;
    other.wait_stream(torch.ahbm.current_stream());
    Tensor aside;
    {
      const auto guard = torch.ahbm.stream(other);
      aside = a * 5;
    }
    torch.ahbm.current_stream().wait_stream(other);
    return std::pair(before + a, aside);
  };
  const auto [y, aside] = compile(on_two_streams)(x);
  CHECK(y.to_vector() == Floats(16, 10));
  CHECK(aside.to_vector() == Floats(16, 15));
}

TEST_CASE("a fused kernel without memory for its result is tried again", "[compile]") {
  Topology topology = small_topology();
  topology.cube.hbm.capacity = 1 << 16;
  RuntimeContext torch(topology);
  const DPPolicy one = DPPolicy::on_one_pe();
  const Tensor x = torch.full({64, 64}, 3, {.dp = one});
  std::vector<Tensor> held;
  const auto take = [&] { held.push_back(torch.empty({64, 64}, {.dp = one})); };
  while (error_of<DeviceError>(take) == "no error") continue;
  Tensor y;
  const auto of = compile([&](const Tensor& a) { return y = a * 2 + 1; });
  CHECK_THAT(error_of<DeviceError>([&] { of(x); }), Says("KB-M010"));
  held.pop_back();
  CHECK(y.to_vector() == Floats(64 * 64, 7));
}

void writes(tl::Context& tl, tl::Pointer x) {
  tl.store(x, tl.zeros({4}, x.dtype()));
}
void reads(tl::Context& tl, tl::Pointer x) {
  tl.load(x, {4}, x.dtype());
}

TEST_CASE("a queued kernel that writes what an operator has saved is found by backward()",
          "[stream][autograd]") {
  const auto error_after = [](void (*before)(tl::Context&, tl::Pointer),
                              void (*after)(tl::Context&, tl::Pointer)) {
    RuntimeContext torch(small_topology(), {.launch_blocking = false});
    const Tensor x = torch.ones({4}).requires_grad_();
    const Tensor other = torch.ones({4});
    torch.launch("before", before, other);
    const Tensor y = x * other;
    torch.launch("after", after, other);
    return error_of<CollectiveError>([&] { sum(y).backward(); });
  };
  CHECK_THAT(error_after(reads, writes), Says("KB-A005"));
  CHECK(error_after(writes, reads) == "no error");
}

TEST_CASE("a queued operator's error has its remedy, and comes at the next wait", "[stream]") {
  Topology topology = small_topology();
  topology.pe.tcm.capacity = 1 << 12;
  RuntimeContext torch(topology, {.launch_blocking = false});
  const Tensor x = torch.zeros({1, 4096});
  const Tensor y = nn::functional::softmax(x);
  CHECK_THAT(error_of<DeviceError>([&] { y.to_vector(); }),
             Says("KB-M010", "softmax", "make rows shorter", "launched as kernel 'softmax'"));
}

TEST_CASE("what captures references blocks, and what captures values is queued", "[stream]") {
  int number = 1;
  const Tensor x;
  const auto owns = [](ops::KernelBody body) { return body.owns(); };
  CHECK_FALSE(owns([&](tl::Context&) { ++number; }));
  CHECK_FALSE(owns([=](tl::Context&) { std::ignore = number; }));
  CHECK_FALSE(owns(std::function<void(tl::Context&)>([](tl::Context&) {})));
  CHECK(owns([=](tl::Context&) { std::ignore = x; }));
  CHECK(owns(ops::Owning([=](tl::Context&) { std::ignore = number; })));
  CHECK(owns([](tl::Context&) {}));
}

}  // namespace
}  // namespace kernbench::test::queued_operators_test
