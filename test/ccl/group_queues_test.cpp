// Tests what groups cost, and which of them are refused.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <vector>

#include "ccl/core/config.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "sim_engine/components/hbm_allocator.h"
#include "sim_engine/components/processing_element.h"
#include "test/ccl/group_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::group_queues_test {
namespace {

TEST_CASE("queues of groups take no scratch, and go with their group", "[ccl][groups]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 3, 1, 2, 1));
  torch.distributed.init_process_group("ahbm");
  sim::Machine& machine = simulation_of(torch).machine();
  const std::size_t before = machine.channels().size();
  const Bytes scratch = machine.pe({0, 0, 0}).scratch_capacity();
  std::vector<std::size_t> after;  // each round: a destroyed group's queues go
  for (int round = 0; round < 3; ++round) {
    run_on_devices(torch, 3, [&](int rank) {
      for (int i = 0; i < 20; ++i) {
        const auto group = torch.distributed.new_group({0, 2});
        if (rank != 1) torch.distributed.broadcast(torch.zeros({100}), 2, {.group = group});
      }
    });
    after.push_back(machine.channels().size());
    CHECK(machine.pe({0, 0, 0}).scratch_capacity() == scratch);
  }
  CHECK(after.front() > before);
  CHECK(after == std::vector(3, after.front()));
  torch.distributed.destroy_process_group();
  CHECK(machine.channels().empty());
}

TEST_CASE(
    "a group makes its queues when it first runs something, and frees them when all members "
    "have destroyed it",
    "[ccl][groups]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 3, 1, 2, 1));
  torch.distributed.init_process_group("ahbm");
  const sim::Machine& machine = simulation_of(torch).machine();
  const std::size_t before = machine.channels().size();
  std::vector<distributed::ProcessGroup> handles;  // keep nothing alive
  run_on_devices(torch, 3, [&](int rank) {
    const Tensor x = torch.zeros({100});
    for (int i = 0; i < 20; ++i) {
      const auto group = torch.distributed.new_group({0, 2});
      handles.push_back(group);
      torch.distributed.barrier();
      CHECK(machine.channels().size() == before);
      torch.distributed.barrier();
      if (rank == 1) continue;
      torch.distributed.all_reduce(x, ReduceOp::max, {.group = group});
      torch.ahbm.synchronize();
      CHECK(machine.channels().size() > before);
      torch.distributed.destroy_process_group(group);
    }
  });
  CHECK(machine.channels().size() == before);
}

TEST_CASE("queues are used again by the next collectives of their group", "[ccl][groups]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 3, 1, 2, 1));
  torch.distributed.init_process_group("ahbm");
  std::vector<std::size_t> counts;
  run_on_devices(torch, 3, [&](int) {
    const Tensor x = torch.zeros({100}, {.dp = DPPolicy::on_one_pe()});
    for (int i = 0; i < 3; ++i) {
      torch.distributed.all_reduce(x, ReduceOp::max);
      torch.distributed.barrier();
      counts.push_back(simulation_of(torch).machine().channels().size());
    }
  });
  CHECK(counts == std::vector<std::size_t>(9, counts.front()));
}

TEST_CASE("a run that fails amid collectives leaves nothing of them", "[ccl][groups]") {
  RuntimeContext torch(round_topology(SipTopology::ring_1d, 2, 1, 2, 1));
  torch.distributed.init_process_group("ahbm");
  const auto pair = torch.distributed.new_group({0, 1});
  const auto in_use = [&] {
    return simulation_of(torch).allocator(0).allocated() +
           simulation_of(torch).allocator(1).allocated();
  };
  const auto program = [&](int rank) {
    torch.ahbm.set_device(rank);
    const Tensor x = torch.zeros({100'000});
    const Tensor y = torch.zeros({100'000});
    const auto sum = torch.distributed.all_reduce(x, ReduceOp::sum, {.async_op = true});
    const auto most =
        torch.distributed.all_reduce(y, ReduceOp::max, {.group = pair, .async_op = true});
    torch.zeros({10}).copy_(RuntimeContext::tensor(std::vector<float>(10), {10}));
    CHECK_FALSE((sum.is_completed() || most.is_completed()));
    if (rank == 1) throw std::runtime_error("boom");
    torch.distributed.barrier();
  };
  const Bytes before = in_use();
  std::vector<std::size_t> queues;
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_AS(torch.multiprocessing.spawn(program, {}, 2), SpawnException);
    CHECK(in_use() == before);
    queues.push_back(simulation_of(torch).machine().channels().size());
  }
  CHECK(queues[2] == queues[0]);
}

TEST_CASE("a kernel that writes what an async collective reads is refused, and ends the run",
          "[ccl][overlap]") {
  const std::string text = error_of<Error>([] {
    run_group(round_topology(SipTopology::ring_1d, 2, 1, 1, 1), {0, 1}, [](const Member& m) {
      const Tensor x = m.torch.zeros({100'000}, {.dp = DPPolicy::on_one_pe()});
      const Tensor all = m.torch.zeros({200'000}, {.dp = DPPolicy::on_one_pe()});
      const distributed::Work work =
          m.torch.distributed.all_gather_into_tensor(all, x, {.async_op = true});
      m.torch.launch(
          "clear",
          [](tl::Context& tl, tl::Pointer p) { tl.store(p, tl.zeros({100'000}, DType::f32)); }, x);
      work.wait();
      return std::string();
    });
  });
  CAPTURE(text);
  CHECK(text.find("KB-G003") != std::string::npos);
  CHECK(text.find("wait for its Work before the launch") != std::string::npos);
}

// 128 x 128 f32 are 64 KiB; the array needs about 2 us for a product.
Topology small_scratch() {
  Topology topology = link_topology(SipTopology::ring_1d, 2);
  topology.pe.gemm = {.rows = 128, .columns = 128, .clock = Frequency{100'000'000}};
  topology.pe.tcm.capacity = 1 << 19;
  return topology;
}

// Holds all scratch but 40 B during products that follow each other.
void fill_scratch(tl::Context& tl, tl::Pointer, Bytes capacity, int products) {
  const tl::Tensor a = tl.zeros({128, 128}, DType::f32);
  const tl::Tensor rest = tl.zeros({(capacity - 2 * 65'536 - 40) / 4}, DType::f32);
  tl::Tensor sum = tl.dot(a, a);
  for (int i = 1; i < products; ++i) sum = tl.dot(a, a, std::move(sum));
  tl.drain();
}

// Takes some time, and hardly any scratch.
void compute_a_little(tl::Context& tl, tl::Pointer) {
  const tl::Tensor a = tl.zeros({8, 8}, DType::f32);
  const tl::Tensor product = tl.dot(a, a);
  tl.drain();
}

TEST_CASE(
    "a collective waits for scratch that a kernel beside it holds, and a kernel for a "
    "collective's",
    "[ccl][overlap]") {
  for (const bool kernel_first : {true, false}) {
    Time kernel_end{0};
    Time collective_end{0};
    const auto wrong_ones = run_group(small_scratch(), {0, 1}, [&](const Member& m) {
      const Tensor x =
          make(m.torch, {30'000}, {.dp = DPPolicy::on_one_pe()}, elements_of(m.rank, 30'000));
      const Tensor y = m.torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
      const Bytes capacity = simulation_of(m.torch).machine().pe({m.rank, 0, 0}).scratch_capacity();
      if (m.rank == 0) {
        if (kernel_first) m.torch.launch("delay", fill_scratch, y, capacity, 1);
        m.torch.distributed.broadcast(x, 0);
        return std::string();
      }
      const distributed::Work work = m.torch.distributed.broadcast(x, {.src = 0, .async_op = true});
      if (!kernel_first) m.torch.launch("short", compute_a_little, y);
      m.torch.launch("fill", fill_scratch, y, capacity, 4);
      m.torch.ahbm.current_stream().synchronize();
      kernel_end = m.torch.engine().now();
      work.wait();
      m.torch.ahbm.synchronize();
      collective_end = m.torch.engine().now();
      return wrong(x, elements_of(0, 30'000));
    });
    CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
    CAPTURE(kernel_first, kernel_end.count(), collective_end.count());
    CHECK((collective_end > kernel_end) == kernel_first);
  }
}

}  // namespace
}  // namespace kernbench::test::group_queues_test
