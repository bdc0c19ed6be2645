// The communication of an input's gradient beside the product that makes the weight's, in simulated
// time: where nothing but links and the GEMM array takes time, every term has a name.

#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "test/tp/tensor_parallel_world.h"
#include "tp/layers.h"
#include "tp/primitives.h"

namespace kernbench::test::overlap_test {
namespace {

constexpr int kRanks = 4;
constexpr std::int64_t kIn = 64;
constexpr std::int64_t kOut = 64;  // of a rank

Topology ring_with_array() {
  Topology topology = link_topology(SipTopology::ring_1d, kRanks);
  topology.pe.gemm = {.rows = 16, .columns = 16, .clock = Frequency{1'000'000'000}};
  return topology;
}

TensorOptions f16() {
  return {.dtype = DType::f16, .dp = DPPolicy::on_one_pe()};
}

class Stopwatch {
 public:
  explicit Stopwatch(RuntimeContext& torch) : torch_(torch), begin_(torch.engine().now()) {}
  // Until the device is done.
  Time read() const {
    torch_.ahbm.synchronize();
    return torch_.engine().now() - begin_;
  }

 private:
  RuntimeContext& torch_;
  const Time begin_;
};

// All ranks go on at the same instant, which those of a barrier do not.
void meet(RuntimeContext& torch) {
  std::vector<int> all;
  torch.distributed.all_gather_object(all, 0);
}

// How long backward takes on a rank, and what it is made of.
struct Times {
  Time backward{0};
  Time dgrad{0};
  Time wgrad{0};
  Time gather{0};         // of the input
  Time reduce{0};         // of its gradient
  bool overlaps = false;  // a collective's kernel ran while a product did
};

bool are_beside_each_other(const std::vector<runtime::KernelResult>& results) {
  for (const auto& a : results) {
    for (const auto& b : results) {
      if (a.pe == b.pe && a.operation < b.operation && a.start < b.end && b.start < a.end) {
        return true;
      }
    }
  }
  return false;
}

Times measure(std::int64_t tokens, bool sequence_parallel, bool overlap) {
  Times times;
  TensorParallelWorld world(
      ring_with_array(), {.backend = "ahbm", .parallel = {.tensor_model_parallel_size = kRanks}});
  RuntimeContext& torch = world.torch;
  world.spawn([&](int rank) {
    const auto group = tp::get_tensor_model_parallel_group(torch);
    const tp::ColumnParallelLinear layer(torch, {.in_features = kIn,
                                                 .out_features = kOut * kRanks,
                                                 .bias = false,
                                                 .sequence_parallel = sequence_parallel,
                                                 .async_tensor_model_parallel_allreduce = overlap});
    Tensor x = torch.ones({sequence_parallel ? tokens / kRanks : tokens, kIn}, f16());
    x.requires_grad_();
    const Tensor dy = torch.ones({tokens, kOut}, f16());
    const Tensor y = layer.forward(x);
    meet(torch);
    const Stopwatch backward(torch);
    y.backward(dy);
    if (rank == 0) times.backward = backward.read();
    times.overlaps |= are_beside_each_other(torch.engine().results());

    const NoGradGuard no_grad(torch);
    const auto timed = [&](const auto& action) {
      meet(torch);
      const Stopwatch watch(torch);
      action();
      return watch.read();
    };
    const Tensor all = torch.ones({tokens, kIn}, f16());
    const Time dgrad = timed([&] { matmul(dy, layer.weight, {.transpose_b = true}); });
    const Time wgrad = timed([&] { matmul(all, dy, {.transpose_a = true}); });
    const Time gather = timed([&] { tp::gather_along_first_dim(torch, x.detach(), group); });
    const Time scatter = timed([&] { tp::reduce_scatter_along_first_dim(torch, all, group); });
    const Time reduce = timed([&] { torch.distributed.all_reduce(all, ReduceOp::sum, {group}); });
    if (rank != 0) return;
    times.dgrad = dgrad;
    times.wgrad = wgrad;
    times.gather = gather;
    times.reduce = sequence_parallel ? scatter : reduce;
  });
  return times;
}

TEST_CASE("async: a step is shorter by the all_reduce or by the product, whichever is less",
          "[tp][overlap]") {
  for (const std::int64_t tokens : {16, 64, 256, 1024}) {
    const Times one_by_one = measure(tokens, false, false);
    const Times beside = measure(tokens, false, true);
    CAPTURE(tokens, beside.dgrad.count(), beside.wgrad.count(), beside.reduce.count());
    REQUIRE(std::min(beside.reduce, beside.wgrad) > Time{0});
    CHECK(one_by_one.backward == beside.dgrad + beside.reduce + beside.wgrad);
    CHECK(beside.backward == beside.dgrad + std::max(beside.reduce, beside.wgrad));
    CHECK(beside.overlaps);
    CHECK_FALSE(one_by_one.overlaps);
  }
}

TEST_CASE(
    "async with sequence parallel: the gather goes beside one product, the scatter beside the "
    "other",
    "[tp][overlap]") {
  for (const std::int64_t tokens : {16, 64, 256, 1024}) {
    const Times one_by_one = measure(tokens, true, false);
    const Times beside = measure(tokens, true, true);
    CAPTURE(tokens, beside.dgrad.count(), beside.wgrad.count(), beside.reduce.count());
    CHECK(one_by_one.backward == beside.gather + beside.dgrad + beside.reduce + beside.wgrad);
    CHECK(beside.backward ==
          std::max(beside.gather, beside.dgrad) + std::max(beside.reduce, beside.wgrad));
    CHECK(beside.overlaps);
    CHECK_FALSE(one_by_one.overlaps);
  }
}

}  // namespace
}  // namespace kernbench::test::overlap_test
