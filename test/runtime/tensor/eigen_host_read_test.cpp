// Reads by the host wait for what the tensor depends on, until the instant at which it is there.

#include <fmt/format.h>

#include <Eigen/Core>
#include <catch2/catch.hpp>

#include "runtime/functional/functional.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/host_read.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::eigen_host_read_test {
namespace {

using runtime::HostRead;

// Reads the only element of a 1 x 1 tensor by one of the entry points.
float read_by(HostRead entry_point, const Tensor& x) {
  switch (entry_point) {
    case HostRead::to_vector:
      return x.to_vector()[0];
    case HostRead::shard_to_vector:
      return x.shard_to_vector(0)[0];
    case HostRead::item:
      return x.item();
    case HostRead::at:
      return x.at({0, 0});
    case HostRead::to_eigen:
      return x.to_eigen()(0, 0);
    case HostRead::format:
      return std::stof(fmt::format("{}", x).substr(std::string("tensor([[").size()));
    case HostRead::targets: {  // of which this one is no class
      const std::string text = error_of<DeviceError>(
          [&] { nn::functional::cross_entropy(x, reshape(x, {1}), {.ignore_index = -1}); });
      const std::string_view before = "Target ";
      return std::stof(text.substr(text.find(before) + before.size()));
    }
    case HostRead::indices: {  // of which this one is out of range
      const std::string text = error_of<DeviceError>([&] { index_select(x, 0, reshape(x, {1})); });
      const std::string_view before = "self: index ";
      return std::stof(text.substr(text.find(before) + before.size()));
    }
    case HostRead::copy_source:
      break;
  }
  Tensor host = RuntimeContext::tensor({0}, {1, 1});
  return host.copy_(x).item();
}

// Adds 1 to the element, as often as asked, one after the other.
void add_ones(tl::Context& tl, tl::Pointer x, tl::Pointer one, std::int64_t times) {
  for (std::int64_t i = 0; i < times; ++i) {
    tl.store(x, tl.load(x, {1, 1}, DType::f32) + tl.load(one, {1, 1}, DType::f32));
  }
}

struct ReadResult {
  float value = 0;
  Time begun{0};
  Time read{0};
  Time launched{0};  // when rank 1's launch had returned
  std::vector<std::string> order;
};

// Rank 1 launches on a tensor; rank 0 does something with it in the middle of that.
ReadResult read_during_launch(const std::function<float(Tensor&)>& action) {
  RuntimeContext torch(round_topology());
  Tensor x = torch.zeros({1, 1}, {.dp = DPPolicy::on_one_pe()});
  const Tensor one = torch.ones({1, 1}, {.dp = DPPolicy::on_one_pe()});
  ReadResult result;
  run_ranks(torch, 2, [&](int rank) {
    if (rank == 1) {
      torch.launch("add_ones", add_ones, x, one, 100);
      torch.ahbm.synchronize();
      result.launched = torch.engine().now();
      result.order.push_back("launched");
      return;
    }
    torch.zeros({1}).copy_(RuntimeContext::tensor({1}, {1}));  // the launch is under way now
    result.begun = torch.engine().now();
    result.value = action(x);
    result.read = torch.engine().now();
    result.order.push_back("read");
  });
  return result;
}

TEST_CASE("every way to read waits for a launch of another rank, and no longer", "[host_read]") {
  for (const HostRead entry_point : runtime::kHostReads) {
    CAPTURE(name_of(entry_point));
    const ReadResult result =
        read_during_launch([&](const Tensor& x) { return read_by(entry_point, x); });
    CHECK(result.begun < result.launched);
    CHECK(result.value == 100);
    CHECK(result.read == result.launched);
  }
}

TEST_CASE("writing into a tensor does not wait for a launch that uses it", "[host_read]") {
  const ReadResult result = read_during_launch([](Tensor& x) {
    x.copy_(RuntimeContext::tensor({7}, {1, 1}));
    return 0.0F;
  });
  CHECK(result.read - result.begun == Time{255'400});  // what a copy of 4 B takes
  CHECK(result.order == std::vector<std::string>{"read", "launched"});
}

TEST_CASE("reading another tensor does not wait", "[host_read]") {
  const ReadResult result =
      read_during_launch([&](Tensor&) { return RuntimeContext::tensor({5}, {1}).item(); });
  CHECK(result.read == result.begun);
}

TEST_CASE("a read takes no simulated time", "[host_read]") {
  RuntimeContext torch(round_topology());
  const Tensor x = torch.ones({1, 1}, {.dp = DPPolicy::on_one_pe()});
  for (const HostRead entry_point : runtime::kHostReads) {
    CHECK(read_by(entry_point, x) == 1);
    CHECK(torch.engine().now() == Time{0});
  }
}

TEST_CASE("several readers of one tensor all wait, and all resume at the same instant",
          "[host_read]") {
  RuntimeContext torch(round_topology());
  Tensor x = torch.zeros({1, 1}, {.dp = DPPolicy::on_one_pe()});
  const Tensor one = torch.ones({1, 1}, {.dp = DPPolicy::on_one_pe()});
  std::vector<Time> times(5);
  std::vector<int> values;
  run_ranks(torch, 5, [&](int rank) {
    if (rank == 0) {
      torch.launch("add_ones", add_ones, x, one, 10);
      torch.ahbm.synchronize();
    } else {
      values.push_back(x.item<int>());
    }
    times[static_cast<std::size_t>(rank)] = torch.engine().now();
  });
  CHECK(values == std::vector<int>{10, 10, 10, 10});
  CHECK(times == std::vector<Time>(5, times[0]));
  CHECK(times[0] > Time{0});
}

// A read that drove the engine would run rank 2's later steps on rank 0's stack.
TEST_CASE("a read inside a worker hands control over: others go on meanwhile", "[host_read]") {
  RuntimeContext torch(round_topology());
  Tensor x = torch.zeros({1, 1}, {.dp = DPPolicy::on_one_pe()});
  const Tensor one = torch.ones({1, 1}, {.dp = DPPolicy::on_one_pe()});
  std::vector<std::string> log;
  run_ranks(torch, 3, [&](int rank) {
    const runtime::Fiber* self = simulation_of(torch).fibers().current();
    if (rank == 0) torch.launch("add_ones", add_ones, x, one, 20);
    if (rank == 1) log.push_back(fmt::format("read {}", x.item()));
    if (rank == 2) {
      for (int i = 0; i < 3; ++i) {
        torch.zeros({1}).copy_(RuntimeContext::tensor({1}, {1}));
        CHECK(simulation_of(torch).fibers().current() == self);
        log.push_back(fmt::format("step {}", i));
      }
    }
  });
  CHECK(log == std::vector<std::string>{"step 0", "step 1", "step 2", "read 20"});
}

TEST_CASE("the names of the entry points are what the user called", "[host_read]") {
  std::vector<std::string_view> names;
  for (const HostRead entry_point : runtime::kHostReads) names.push_back(name_of(entry_point));
  CHECK(names == std::vector<std::string_view>{"to_vector", "shard_to_vector", "item", "at",
                                               "to_eigen", "format", "copy_ (its source)",
                                               "cross_entropy (its targets)",
                                               "an operator (its indices)"});
}

}  // namespace
}  // namespace kernbench::test::eigen_host_read_test
