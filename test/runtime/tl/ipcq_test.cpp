// tl.send and tl.recv: order, credits, errors, and the deadlocks they can make.

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
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
  const auto send = [](std::int64_t count) {
    return [=](tl::Context& tl, tl::Pointer p) {
      tl.send(Direction::east, tl.load(p, {count}, DType::f32));
    };
  };
  const auto recv = [](tl::Context& tl, tl::Pointer) {
    tl.recv(Direction::west, {16}, DType::f32);
  };
  CHECK(pair.device_error_of(send(16), recv) == "no error");
  CHECK(pair.device_error_of(send(17)) ==
        "[KB-Q004] tl.send in kernel 'pair' on sip0.cube0.pe0: send 68 B into 64 B slot of ipcq "
        "sip0.cube0.pe0 east -> sip0.cube0.pe1 west; send it in parts, or set a larger 'slot' in "
        "ccl.yaml");
}

TEST_CASE("a message must be what the receiver expects", "[tl][ipcq][error]") {
  PairUnderTest pair;
  const auto send = [](tl::Context& tl, tl::Pointer p) {
    tl.send(Direction::east, tl.load(p, {16}, DType::f32));
  };
  const auto recv = [](std::int64_t count, DType dtype) {
    return [=](tl::Context& tl, tl::Pointer) { tl.recv(Direction::west, {count}, dtype); };
  };
  const std::string where = "[KB-Q005] tl.recv in kernel 'pair' on sip0.cube0.pe1 expects ";
  for (const std::int64_t count : {8, 17}) {
    const std::string text = pair.device_error_of(send, recv(count, DType::f32));
    CHECK(text.starts_with(
        fmt::format("{}{} B of f32, got 64 B of f32 (sent at ", where, 4 * count)));
    CHECK(text.ends_with("ns) by ipcq sip0.cube0.pe0 east -> sip0.cube0.pe1 west"));
  }
  CHECK(pair.device_error_of(send, recv(32, DType::f16))
            .starts_with(where + "64 B of f16, got 64 B of f32 (sent at "));
}

TEST_CASE("there must be a neighbour", "[tl][ipcq][error]") {
  PairUnderTest pair;
  CHECK(pair.device_error_of([](tl::Context& tl, tl::Pointer p) {
    tl.send(Direction::global_north, tl.load(p, {1}, DType::f32));
  }) == "[KB-Q006] tl.send in kernel 'pair' on sip0.cube0.pe0: there is no neighbour at "
        "global_north; there are: east");
  CHECK(pair.device_error_of([](tl::Context& tl, tl::Pointer) {
    tl.recv(Direction::south, {1}, DType::f32);
  }) == "[KB-Q006] tl.recv in kernel 'pair' on sip0.cube0.pe0: there is no neighbour at "
        "south; there are: east");
}

TEST_CASE("several neighbours of one direction have a port each", "[tl][ipcq][port]") {
  PairUnderTest pair;
  sim::Machine& machine = pair.torch.simulation().machine();
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
  CHECK(pair.device_error_of([](tl::Context& tl, tl::Pointer p) {
    tl.send({Direction::south, 1}, tl.load(p, {1}, DType::f32));
  }) == "[KB-Q006] tl.send in kernel 'pair' on sip0.cube0.pe0: there is no neighbour at south[1]; "
        "there are: east, south, south[2]");
  CHECK(pair.device_error_of([](tl::Context&, tl::Pointer) {},
                             [](tl::Context& tl, tl::Pointer) {
                               tl.recv({Direction::north, 2}, {1}, DType::f32);
                             }) ==
        "[KB-Q006] tl.recv in kernel 'pair' on sip0.cube0.pe1: there is no neighbour at north[2]; "
        "there are: west, north, north[1]");
}

TEST_CASE("without queues there is no neighbour at all", "[tl][ipcq][port][error]") {
  RuntimeContext torch(round_topology());
  const Tensor x = torch.zeros({4}, {.dp = {.num_cubes = 1, .num_pes = 1}, .name = "x"});
  CHECK(error_of<DeviceError>([&] {
          torch.launch(
              "lonely",
              [](tl::Context& tl, tl::Pointer) { tl.recv(Direction::west, {1}, DType::f32); }, x);
        }) ==
        "[KB-Q006] tl.recv in kernel 'lonely' on sip0.cube0.pe0: there is no neighbour at "
        "west; there is none at all");
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
  CHECK(error_of<DeadlockError>([&] { pair.run(body(Direction::east), body(Direction::west)); }) ==
        "[KB-D001] deadlock: 0 ranks and 2 kernels blocked, no event pending at t=217.24 ns\n"
        "  kernel 'pair' on sip0.cube0.pe0 waits for a message of ipcq sip0.cube0.pe1 west -> "
        "sip0.cube0.pe0 east (16 B; empty) since t=217.24 ns\n"
        "  kernel 'pair' on sip0.cube0.pe1 waits for a message of ipcq sip0.cube0.pe0 east -> "
        "sip0.cube0.pe1 west (16 B; empty) since t=217.24 ns\n"
        "  wait-for cycle: sip0.cube0.pe0 -> sip0.cube0.pe1 -> sip0.cube0.pe0");
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
    CHECK(text.find(fmt::format("waits for a credit of ipcq sip0.cube0.pe0 east -> sip0.cube0.pe1 "
                                "west (depth {0}, used {0})",
                                depth)) != std::string::npos);
    CHECK(text.ends_with(
        fmt::format("\n  wait-for cycle: sip0.cube0.pe0 -> sip0.cube0.pe1 -> sip0.cube0.pe0\n"
                    "  hint: queues are full: this needs depth >= {}, or a recv before the send",
                    depth + 1)));
  }
}

TEST_CASE("after a deadlock the queues are as new and the context works", "[tl][ipcq][deadlock]") {
  PairUnderTest pair({.depth = 2});
  const auto recv = [](tl::Context& tl, tl::Pointer) { tl.recv(Direction::west, {4}, DType::f32); };
  const auto send = [](int times) {
    return [=](tl::Context& tl, tl::Pointer p) {
      for (int i = 0; i < times; ++i) tl.send(Direction::east, tl.load(p, {4}, DType::f32));
    };
  };
  const auto nothing = [](tl::Context&, tl::Pointer) {};
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_AS(pair.run(nothing, recv), DeadlockError);
    CHECK_THROWS_AS(pair.run(send(3), nothing), DeadlockError);
    CHECK(pair.credits(0) == 2);
    pair.run(send(1), recv);
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
    CHECK(pair.device_error_of(fail_after_sends, recv_for_ever) ==
          "[KB-K001] kernel 'pair' on sip0.cube0.pe0 raised: boom");
    CHECK(pair.device_error_of(fail_after_sends) ==
          "[KB-K001] kernel 'pair' on sip0.cube0.pe0 raised: boom");
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
