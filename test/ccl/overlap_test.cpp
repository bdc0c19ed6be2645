// Collectives beside kernels, and beside each other, in simulated time.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/ccl/group_under_test.h"
#include "test/ccl/ring_with_array.h"
#include "test/support/small_topology.h"

namespace kernbench::test::overlap_test {
namespace {

constexpr Time kAlpha{500'000};
constexpr Time kByte{20};

struct Times {
  Time both{0};
  Time compute{0};
  runtime::DeviceActivity activity;  // of rank 0
};

// An all_reduce of `count` elements that is under way while a GEMM runs, or with 0 either alone.
Times overlap(std::int64_t count, std::int64_t n, ReduceOp op) {
  Times times;
  run_group(ring_with_array(4), {0, 1, 2, 3}, [&](const Member& m) {
    const Tensor x =
        m.torch.zeros({std::max<std::int64_t>(count, 1)}, {.dp = DPPolicy::on_one_pe()});
    const Tensor y = m.torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
    const Time begin = m.torch.engine().now();
    distributed::Work work;
    if (count > 0) work = m.torch.distributed.all_reduce(x, op, {.async_op = true});
    if (n > 0) m.torch.launch("multiply", multiply, y, n);
    m.torch.ahbm.current_stream().synchronize();
    times.compute = std::max(times.compute, m.torch.engine().now() - begin);
    if (work) work.wait();
    m.torch.ahbm.synchronize();
    times.both = std::max(times.both, m.torch.engine().now() - begin);
    if (m.rank == 0) times.activity = m.torch.engine().activity(0);
    return std::string();
  });
  return times;
}

TEST_CASE("an all_reduce overlaps its own rank's GEMM: together they take as long as the longer",
          "[ccl][overlap]") {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
    for (const std::int64_t n : {64, 256, 512}) {
      const std::int64_t count = 4 * 4096;
      const Time communication = overlap(count, 0, op).both;
      const Time compute = overlap(0, n, op).both;
      const Times together = overlap(count, n, op);
      CAPTURE(name_of(op), n, communication.count(), compute.count());
      REQUIRE(compute > Time{0});
      CHECK(together.both == std::max(communication, compute));
      CHECK(together.compute == compute);
    }
  }
}

TEST_CASE("a device's activity says what of its communication its kernels hide",
          "[ccl][overlap][activity]") {
  constexpr std::int64_t kCount = 4 * 4096;
  for (const std::int64_t n : {64, 512}) {
    const Time communication = overlap(kCount, 0, ReduceOp::sum).both;
    const Time compute = overlap(0, n, ReduceOp::sum).both;
    REQUIRE((n == 64) == (compute < communication));
    const runtime::DeviceActivity both = overlap(kCount, n, ReduceOp::sum).activity;
    CHECK(both.communicating == communication);
    CHECK(both.computing == compute);
    CHECK(both.overlapped == std::min(compute, communication));
    CHECK(both.exposed() == std::max(Time{0}, communication - compute));
    CHECK(both.busy() == std::max(compute, communication));
    CHECK(overlap(0, n, ReduceOp::sum).activity == runtime::DeviceActivity{.computing = compute});
    CHECK(overlap(kCount, 0, ReduceOp::sum).activity ==
          runtime::DeviceActivity{.communicating = communication});
  }
}

TEST_CASE("a message is communication of both devices, from when both have called",
          "[ccl][overlap][activity]") {
  std::vector<runtime::DeviceActivity> activity(3);
  Time received{0};
  run_group(ring_with_array(3), {0, 1, 2}, [&](const Member& m) {
    const Tensor x = m.torch.zeros({4096}, {.dp = DPPolicy::on_one_pe()});
    if (m.rank == 0) m.torch.launch("multiply", multiply, x, std::int64_t{64});
    if (m.rank == 0) m.torch.distributed.send(x, 1);
    if (m.rank == 1) {
      m.torch.distributed.recv(x, 0);
      received = m.torch.engine().now();
    }
    activity[static_cast<std::size_t>(m.rank)] = m.torch.engine().activity(m.rank);
    return std::string();
  });
  const Time multiplied = activity[0].computing;
  const Time message = received - multiplied;
  CHECK(multiplied > Time{0});
  CHECK(message >= kAlpha + 4096 * 4 * kByte);
  CHECK(activity[0] == runtime::DeviceActivity{.computing = multiplied, .communicating = message});
  CHECK(activity[1] == runtime::DeviceActivity{.communicating = message});
  CHECK(activity[2] == runtime::DeviceActivity{});
}

TEST_CASE("kernels of collectives have results of their own beside the GEMM's", "[ccl][overlap]") {
  std::vector<runtime::KernelResult> results;
  run_group(ring_with_array(2), {0, 1}, [&](const Member& m) {
    const Tensor x = m.torch.zeros({4096}, {.dp = DPPolicy::on_one_pe()});
    const Tensor y = m.torch.zeros({1}, {.dp = DPPolicy::on_one_pe()});
    const distributed::Work work =
        m.torch.distributed.all_reduce(x, ReduceOp::sum, {.async_op = true});
    m.torch.launch("multiply", multiply, y, std::int64_t{256});
    work.wait();
    if (m.rank == 0) results = m.torch.engine().results();
    return std::string();
  });
  // On the same PE, one began before the other had ended.
  bool overlaps = false;
  for (const runtime::KernelResult& a : results) {
    for (const runtime::KernelResult& b : results) {
      overlaps |= a.pe == b.pe && a.operation < b.operation && b.start < a.end && a.start < b.end;
    }
  }
  CHECK(overlaps);
}

TEST_CASE("overlapping groups may be used in opposite order by async collectives",
          "[ccl][overlap]") {
  for (const bool waits_in_order : {true, false}) {
    const auto wrong_ones = run_group(
        round_topology(SipTopology::ring_1d, 4, 1, 2, 1), {0, 1, 2, 3},
        [&](const Member& m) -> std::string {
          auto& distributed = m.torch.distributed;
          const auto a = distributed.new_group({0, 1, 2});
          const auto b = distributed.new_group({1, 2, 3});
          const auto make_one = [&](int salt) {
            return make(m.torch, {200}, {.dp = placements()[1]}, elements_of(m.rank + salt, 200));
          };
          const Tensor x = make_one(0);
          const Tensor y = make_one(10);
          std::vector<distributed::Work> works;
          const auto reduce = [&](const Tensor& tensor, const auto& group, bool member) {
            if (member) {
              works.push_back(distributed.all_reduce(tensor, ReduceOp::sum,
                                                     {.group = group, .async_op = true}));
            }
          };
          const bool reverse = m.rank == 2;
          if (reverse) reduce(y, b, m.rank > 0);
          reduce(x, a, m.rank < 3);
          if (!reverse) reduce(y, b, m.rank > 0);
          if (!waits_in_order) std::ranges::reverse(works);
          for (const distributed::Work& work : works) work.wait();
          const auto sum_of = [](int first) {
            Elements sums(200, 0);
            for (int rank = first; rank < first + 3; ++rank) {
              const Elements own = elements_of(rank, 200);
              for (std::size_t i = 0; i < 200; ++i) sums[i] += own[i];
            }
            return sums;
          };
          const std::string of_x = m.rank < 3 ? wrong(x, sum_of(0)) : "";
          return of_x + (m.rank > 0 ? wrong(y, sum_of(11)) : "");
        });
    CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
  }
}

TEST_CASE("forty collectives of one rank may be under way at once", "[ccl][overlap]") {
  // Two groups of the same ranks serve them in opposite order.
  const auto wrong_ones =
      run_group(round_topology(SipTopology::ring_1d, 2, 1, 2, 1), {0, 1},
                [&](const Member& m) -> std::string {
                  std::vector<distributed::ProcessGroup> groups;
                  for (int i = 0; i < 40; ++i) groups.push_back(m.torch.distributed.new_group());
                  if (m.rank == 1) std::ranges::reverse(groups);
                  std::vector<Tensor> tensors;
                  std::vector<distributed::Work> works;
                  for (const auto& group : groups) {
                    tensors.push_back(make(m.torch, {100}, {}, elements_of(m.rank, 100)));
                    works.push_back(m.torch.distributed.all_reduce(
                        tensors.back(), ReduceOp::max, {.group = group, .async_op = true}));
                  }
                  for (const distributed::Work& work : works) work.wait();
                  Elements expected = elements_of(0, 100);
                  for (int i = 0; i < 100; ++i) {
                    expected[static_cast<std::size_t>(i)] =
                        std::max(expected[static_cast<std::size_t>(i)], brought(1, i));
                  }
                  for (const Tensor& tensor : tensors) {
                    if (!wrong(tensor, expected).empty()) return wrong(tensor, expected);
                  }
                  return {};
                });
  CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
}

TEST_CASE("batch_isend_irecv round a ring", "[ccl][collectives]") {
  const auto wrong_ones = run_group(
      round_topology(SipTopology::ring_1d, 5, 1, 2, 1), {0, 1, 2, 3, 4},
      [](const Member& m) -> std::string {
        const int next = (m.rank + 1) % 5;
        const int previous = (m.rank + 4) % 5;
        const Tensor out = make(m.torch, {300}, {.dp = placements()[2]}, elements_of(m.rank, 300));
        const Tensor in = m.torch.zeros({300}, {.dp = placements()[4]});
        using distributed::PointToPoint;
        for (const distributed::Work& work : m.torch.distributed.batch_isend_irecv(
                 {{PointToPoint::isend, out, next}, {PointToPoint::irecv, in, previous}})) {
          work.wait();
        }
        return wrong(in, elements_of(previous, 300));
      });
  CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
}

TEST_CASE(
    "messages between the same two ranks, and a collective of theirs, may be under way at once",
    "[ccl][collectives]") {
  // Each call has several slices, and is waited for in the opposite order.
  const auto wrong_ones =
      run_group(round_topology(SipTopology::ring_1d, 2, 1, 2, 1), {0, 1}, [](const Member& m) {
        const Shape shape{40'000};
        const auto lies = [](int message) {
          return placements()[static_cast<std::size_t>(message)];
        };
        std::vector<Tensor> tensors;
        std::vector<distributed::Work> works;
        for (int message = 0; message < 6; ++message) {
          const Elements elements = elements_of(message, shape.numel());
          if (m.rank == 0) {
            tensors.push_back(make(m.torch, shape, {.dp = lies(message)}, elements));
            works.push_back(m.torch.distributed.isend(tensors.back(), 1, {.tag = message}));
          } else {
            tensors.push_back(m.torch.zeros(shape, {.dp = lies(5 - message)}));
            works.push_back(m.torch.distributed.irecv(tensors.back(), 0, {.tag = message}));
          }
          const Tensor x = make(m.torch, shape, {}, elements_of(m.rank, shape.numel()));
          works.push_back(m.torch.distributed.broadcast(x, {.src = 1, .async_op = true}));
          tensors.push_back(x);
        }
        std::ranges::reverse(works);
        for (const distributed::Work& work : works) work.wait();
        std::string said;
        for (int message = 0; message < 6; ++message) {
          const auto index = static_cast<std::size_t>(2 * message);
          if (m.rank == 1) said += wrong(tensors[index], elements_of(message, shape.numel()));
          said += wrong(tensors[index + 1], elements_of(1, shape.numel()));
        }
        return said;
      });
  CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
}

TEST_CASE("send returns when its receive has been called and the elements are there",
          "[ccl][collectives]") {
  Time received{0};
  Time sent{0};
  Time called{0};
  run_group(link_topology(SipTopology::ring_1d, 2), {0, 1}, [&](const Member& m) {
    const Tensor x = m.torch.zeros({1000}, {.dp = DPPolicy::on_one_pe()});
    if (m.rank == 0) {
      m.torch.distributed.send(x, 1);
      sent = m.torch.engine().now();
    } else {
      m.torch.launch(
          "late", [](tl::Context& tl, tl::Pointer p) { tl.store(p, tl.zeros({1000}, DType::f32)); },
          x);
      called = m.torch.engine().now();
      m.torch.distributed.recv(x, 0);
      received = m.torch.engine().now();
    }
    return std::string();
  });
  CHECK(sent >= called + kAlpha + 4000 * kByte);
  CHECK(sent == received);
}

TEST_CASE("a tensor of many segments", "[ccl][collectives]") {
  Topology topology = round_topology(SipTopology::ring_1d, 3, 1, 2, 1);
  topology.pe.tcm.capacity = 1 << 19;  // segments of 3,276 B; half of it is the queues'
  const auto wrong_ones = run_group(topology, {0, 1, 2}, [](const Member& m) {
    std::string said;
    for (const std::size_t dp : {0, 1, 2, 5}) {
      const Shape shape{150, 170};
      const Tensor x = make(m.torch, shape, {.dtype = DType::f16, .dp = placements()[dp]},
                            elements_of(m.rank, shape.numel()));
      m.torch.distributed.all_reduce(x, ReduceOp::min);
      Elements expected = elements_of(0, shape.numel());
      for (std::int64_t i = 0; i < shape.numel(); ++i) {
        double& least = expected[static_cast<std::size_t>(i)];
        least = std::min({least, brought(1, i), brought(2, i)});
      }
      said += wrong(x, expected);
      m.torch.distributed.broadcast(x, 1);
      said += wrong(x, expected);
      const Tensor all =
          m.torch.zeros({3 * 150, 170}, {.dtype = DType::f16, .dp = placements()[dp]});
      m.torch.distributed.all_gather_into_tensor(all, x);
      Elements thrice;
      for (int i = 0; i < 3; ++i) thrice.insert(thrice.end(), expected.begin(), expected.end());
      said += wrong(all, thrice);
    }
    return said;
  });
  CHECK(fmt::format("{}", fmt::join(wrong_ones, "\n")) == "");
}

}  // namespace
}  // namespace kernbench::test::overlap_test
