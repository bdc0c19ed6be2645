// tl.send and tl.recv: order, credits, errors, and the deadlocks they can make.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "test/runtime/tl/pair_under_test.h"

namespace kernbench::test::ipcq_test {
namespace {

using Floats = std::vector<float>;
using tl::Direction;

TEST_CASE("a message brings the value that its source had when it was sent", "[tl][ipcq]") {
  PairUnderTest pair;
  pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 5), {4000}));
  pair.run(
      [](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor five = tl.load(p, {4}, DType::f32);
        tl.send(Direction::east, five);
        tl.store(p, five + five);
      },
      [](tl::Context& tl, tl::Pointer p) {
        tl.store(p, tl.recv(Direction::west, {4}, DType::f32));
      });
  CHECK(pair.x.shard_to_vector(1)[3] == 5);
  CHECK(pair.x.shard_to_vector(0)[3] == 10);
}

TEST_CASE("a message of B bytes takes the way's latencies and B at its slowest link",
          "[tl][ipcq][timing]") {
  PairUnderTest pair;
  Time sent{0};
  Time received{0};
  pair.run(
      [&](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor a = tl.load(p, {1000}, DType::f32);
        tl.drain();
        sent = pair.now();
        tl.send(Direction::east, a);
      },
      [&](tl::Context& tl, tl::Pointer) {
        const tl::Tensor a = tl.recv(Direction::west, {1000}, DType::f32);
        received = pair.now();  // the message is visible; the pop is under way
      });
  CHECK(received - sent == Time{6'000 + 200'000});
}

// Into the buffer over the sender's TCM (1 ns) and the NoC (2 ns), and on to a TCM (2 + 1), an SRAM
// (3) or the own HBM slice (50 ns, 20 GB/s); out of it back over the NoC (2) and TCM (1), unless it
// lies in the TCM: 1 + 1 ns at 1000 GB/s.  4000 B take 200 ns at the NoC's 20 GB/s, 4 ns in the
// TCM.
TEST_CASE("the memory that a queue lies in costs its way in and its way out",
          "[tl][ipcq][timing]") {
  struct Case {
    sim::BufferKind kind;
    Time in;
    Time out;
  };
  const auto c = GENERATE(Case{sim::BufferKind::tcm, Time{206'000}, Time{6'000}},
                          Case{sim::BufferKind::sram, Time{206'000}, Time{206'000}},
                          Case{sim::BufferKind::hbm, Time{253'000}, Time{253'000}});
  PairUnderTest pair({.buffer_kind = c.kind, .depth = 1});
  Time begin{0};
  pair.run(
      [&](tl::Context& tl, tl::Pointer p) {
        begin = pair.now();
        const tl::Tensor a = tl.load(p, {1000}, DType::f32);  // 253 ns
        for (int i = 0; i < 2; ++i) tl.send(Direction::east, a);
      },
      [&](tl::Context& tl, tl::Pointer) {
        for (int i = 0; i < 2; ++i) tl.recv(Direction::west, {1000}, DType::f32);
      });
  const Time loaded{253'000};
  const Time credit{4'800};
  const Time round_trip = c.in + c.out + credit;
  CHECK(pair.send_times(begin) == std::vector<Time>{loaded, loaded + round_trip});
  CHECK(pair.recv_times(begin) == std::vector<Time>{loaded + c.in, loaded + round_trip + c.in});
  CHECK(pair.now() - begin >= loaded + round_trip + c.in + c.out);
}

TEST_CASE("messages of one direction arrive in the order of their sends, ready or not",
          "[tl][ipcq]") {
  Topology topology = round_topology();
  topology.pe.math_clock = Frequency{1'000'000'000};
  PairUnderTest pair({}, topology);
  pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 1), {4000}));
  pair.run(
      [](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor one = tl.load(p, {1000}, DType::f32);
        const tl::Tensor two = one + one;  // 1000 ns
        tl.send(Direction::east, two);
        tl.send(Direction::east, one);  // ready long before
      },
      [](tl::Context& tl, tl::Pointer p) {
        tl.store(p, tl.recv(Direction::west, {1000}, DType::f32));
        tl.store(p + 1000, tl.recv(Direction::west, {1000}, DType::f32));
      });
  CHECK(pair.x.shard_to_vector(1)[0] == 2);
  CHECK(pair.x.shard_to_vector(1)[1000] == 1);
}

TEST_CASE("a sender is as many messages ahead as there are slots, and then waits for a credit",
          "[tl][ipcq][timing]") {
  const int depth = GENERATE(1, 2, 4);
  Topology topology = round_topology();
  topology.pe.math_clock = Frequency{1'000'000'000};
  PairUnderTest pair({.depth = depth}, topology);
  Time begin{0};
  pair.run(
      [&](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor a = tl.load(p, {5}, DType::f32);
        begin = pair.now();
        for (int i = 0; i <= depth; ++i) tl.send(Direction::east, a);
      },
      [&](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor a = tl.load(p, {1000}, DType::f32);  // 53 ns and 4000 B
        const tl::Tensor sum = a + a;                         // 1000 ns
        tl.drain();
        for (int i = 0; i <= depth; ++i) tl.recv(Direction::west, {5}, DType::f32);
      });
  std::vector<Time> expected(static_cast<std::size_t>(depth), Time{54'000});  // once it is loaded
  // The receiver begins at 1253 ns, its pop takes 2.02 ns, the credit 4.8 ns.
  expected.push_back(Time{1'253'000 + 2'020 + 4'800});
  CHECK(pair.send_times(begin) == expected);
  CHECK(pair.credits(0) == depth);
}

TEST_CASE("messages of no elements are messages", "[tl][ipcq]") {
  PairUnderTest pair({.depth = 1});
  int received = 0;
  pair.run(
      [](tl::Context& tl, tl::Pointer p) {
        for (int i = 0; i < 3; ++i) tl.send(Direction::east, tl.load(p, {0}, DType::f32));
      },
      [&](tl::Context& tl, tl::Pointer) {
        for (int i = 0; i < 3; ++i, ++received) tl.recv(Direction::west, {0}, DType::f32);
      });
  CHECK(received == 3);
}

TEST_CASE("a message must fit into a slot", "[tl][ipcq][error]") {
  PairUnderTest pair({.slot_bytes = 64});
  CHECK(pair.device_error_of(sends(1, 16), receives(1, 16)) == "no error");
  CHECK_THAT(pair.device_error_of(sends(1, 17)),
             Says("KB-Q004", "tl.send in kernel 'pair' on sip0.cube0.pe0", "68 B", "64 B slot",
                  "sip0.cube0.pe0 east -> sip0.cube0.pe1 west", "'slot' in ccl.yaml"));
}

TEST_CASE("a message must be what the receiver expects", "[tl][ipcq][error]") {
  PairUnderTest pair;
  const auto recv = [](std::int64_t count, DType dtype) {
    return [=](tl::Context& tl, tl::Pointer) { tl.recv(Direction::west, {count}, dtype); };
  };
  for (const std::int64_t count : {8, 17}) {
    CHECK_THAT(pair.device_error_of(sends(1, 16), recv(count, DType::f32)),
               Says("KB-Q005", "tl.recv in kernel 'pair' on sip0.cube0.pe1",
                    fmt::format("{} B of f32", 4 * count), "64 B of f32",
                    "sip0.cube0.pe0 east -> sip0.cube0.pe1 west"));
  }
  CHECK_THAT(pair.device_error_of(sends(1, 16), recv(32, DType::f16)),
             Says("KB-Q005", "64 B of f16", "64 B of f32"));
}

TEST_CASE("there must be a neighbour", "[tl][ipcq][error]") {
  PairUnderTest pair;
  CHECK_THAT(pair.device_error_of([](tl::Context& tl, tl::Pointer p) {
    tl.send(Direction::global_north, tl.load(p, {1}, DType::f32));
  }),
             Says("KB-Q006", "tl.send in kernel 'pair' on sip0.cube0.pe0", "global_north",
                  "there are: east"));
  CHECK_THAT(pair.device_error_of(
                 [](tl::Context& tl, tl::Pointer) { tl.recv(Direction::south, {1}, DType::f32); }),
             Says("KB-Q006", "tl.recv", "south", "there are: east"));
}

TEST_CASE("several neighbours of one direction have a port each", "[tl][ipcq][port]") {
  PairUnderTest pair;
  sim::Machine& machine = simulation_of(pair.torch).machine();
  machine.connect(
      {PairUnderTest::kFirst, {Direction::south, 0}, PairUnderTest::kSecond, Direction::north}, {});
  machine.connect(
      {PairUnderTest::kFirst, {Direction::south, 2}, PairUnderTest::kSecond, {Direction::north, 1}},
      {});
  pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 5), {4000}));
  pair.run(
      [](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor five = tl.load(p, {4}, DType::f32);
        tl.send({Direction::south, 2}, five);
        tl.send(Direction::south, five + five);
      },
      [](tl::Context& tl, tl::Pointer p) {
        tl.store(p, tl.recv(Direction::north, {4}, DType::f32));
        tl.store(p + 4, tl.recv({Direction::north, 1}, {4}, DType::f32));
      });
  CHECK(pair.x.shard_to_vector(1)[3] == 10);
  CHECK(pair.x.shard_to_vector(1)[4] == 5);
  CHECK_THAT(pair.device_error_of([](tl::Context& tl, tl::Pointer p) {
    tl.send({Direction::south, 1}, tl.load(p, {1}, DType::f32));
  }),
             Says("KB-Q006", "tl.send", "south[1]", "there are: east, south, south[2]"));
  CHECK_THAT(pair.device_error_of([](tl::Context&, tl::Pointer) {},
                                  [](tl::Context& tl, tl::Pointer) {
                                    tl.recv({Direction::north, 2}, {1}, DType::f32);
                                  }),
             Says("KB-Q006", "tl.recv", "north[2]", "there are: west, north, north[1]"));
}

TEST_CASE("without queues there is no neighbour at all", "[tl][ipcq][port][error]") {
  RuntimeContext torch(round_topology());
  const Tensor x = torch.zeros({4}, {.dp = {.num_cubes = 1, .num_pes = 1}, .name = "x"});
  torch.launch(
      "lonely", [](tl::Context& tl, tl::Pointer) { tl.recv(Direction::west, {1}, DType::f32); }, x);
  CHECK_THROWS_MATCHES(
      torch.ahbm.synchronize(), DeviceError,
      Says("KB-Q006", "tl.recv in kernel 'lonely' on sip0.cube0.pe0", "west", "none at all"));
}

TEST_CASE("kernels that all receive before they send are a deadlock with its cycle",
          "[tl][ipcq][deadlock]") {
  PairUnderTest pair;
  const auto body = [](Direction direction) {
    return [=](tl::Context& tl, tl::Pointer p) {
      const tl::Tensor got = tl.recv(direction, {4}, DType::f32);
      tl.send(direction, tl.load(p, {4}, DType::f32));
    };
  };
  // The launch takes 200 + 5 + 2 ns and 64 B over each of the three links on the way.
  CHECK_THROWS_MATCHES(pair.run(body(Direction::east), body(Direction::west)), DeadlockError,
                       Says("KB-D001", "t=217.24 ns", "message of ipcq sip0.cube0.pe1 west",
                            "wait-for cycle: sip0.cube0.pe0 -> sip0.cube0.pe1"));
}

TEST_CASE("kernels that send more than the queues hold before they receive are a deadlock",
          "[tl][ipcq][deadlock]") {
  const int depth = GENERATE(1, 2, 3);
  PairUnderTest pair({.depth = depth});
  const auto body = [](Direction direction) {
    return [=](tl::Context& tl, tl::Pointer p) {
      for (int i = 0; i < 3; ++i) tl.send(direction, tl.load(p, {4}, DType::f32));
      for (int i = 0; i < 3; ++i) tl.recv(direction, {4}, DType::f32);
    };
  };
  const std::string text =
      error_of<DeadlockError>([&] { pair.run(body(Direction::east), body(Direction::west)); });
  if (depth == 3) {
    CHECK(text == "no error");
  } else {
    CHECK_THAT(text, Says("KB-D001", "credit", "sip0.cube0.pe0 east -> sip0.cube0.pe1 west",
                          fmt::format("(depth {0}, used {0})", depth),
                          "wait-for cycle: sip0.cube0.pe0 -> sip0.cube0.pe1 -> sip0.cube0.pe0",
                          fmt::format("depth >= {}", depth + 1)));
  }
}

TEST_CASE("after a deadlock the queues are as new and the context works", "[tl][ipcq][deadlock]") {
  PairUnderTest pair({.depth = 2});
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_AS(pair.run(sends(0), receives(1)), DeadlockError);
    CHECK_THROWS_AS(pair.run(sends(3), receives(0)), DeadlockError);
    CHECK(pair.credits(0) == 2);
    pair.run(sends(1), receives(1));
  }
}

TEST_CASE("a kernel that failed with messages under way leaves the queues as new",
          "[tl][ipcq][error]") {
  PairUnderTest pair({.depth = 2});
  const auto fail_after_sends = [](tl::Context& tl, tl::Pointer p) {
    for (int i = 0; i < 2; ++i) tl.send(Direction::east, tl.load(p, {4}, DType::f32));
    throw std::runtime_error("boom");
  };
  const auto recv_for_ever = [](tl::Context& tl, tl::Pointer) {
    for (;;) tl.recv(Direction::west, {4}, DType::f32);
  };
  for (int i = 0; i < 3; ++i) {
    CHECK_THAT(pair.device_error_of(fail_after_sends, recv_for_ever),
               Says("KB-K001", "'pair' on sip0.cube0.pe0", "boom"));
    CHECK_THAT(pair.device_error_of(fail_after_sends),
               Says("KB-K001", "'pair' on sip0.cube0.pe0", "boom"));
    // Once the last credits are back a good kernel finds nothing of that.
    pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 7), {4000}));
    CHECK(pair.credits(0) == 2);
    pair.run(
        [](tl::Context& tl, tl::Pointer p) {
          const tl::Tensor seven = tl.load(p, {4}, DType::f32);
          tl.send(Direction::east, seven + seven);
        },
        [](tl::Context& tl, tl::Pointer p) {
          tl.store(p, tl.recv(Direction::west, {4}, DType::f32));
        });
    CHECK(pair.x.shard_to_vector(1)[0] == 14);
  }
}

}  // namespace
}  // namespace kernbench::test::ipcq_test
