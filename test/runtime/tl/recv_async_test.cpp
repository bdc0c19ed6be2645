// tl.recv_async and tl.wait: receives that are posted, and what is wrong with them.

#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/processing_element.h"
#include "test/runtime/tl/pair_under_test.h"

namespace kernbench::test::recv_async_test {
namespace {

using Floats = std::vector<float>;
using tl::Direction;

// PE_CPU 10 ns per command, PE_MATH 100 ns per element; the rest as in PairUnderTest.
Topology slow_cpu_topology() {
  Topology topology = round_topology();
  topology.pe.cpu_issue = Time{10'000};
  topology.pe.math_clock = Frequency{10'000'000};
  return topology;
}

TEST_CASE("posts of one queue take its messages in their order, however they are waited for",
          "[tl][recv_async]") {
  PairUnderTest pair;
  pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 1), {4000}));
  pair.run(
      [](tl::Context& tl, tl::Pointer p) {
        tl::Tensor value = tl.load(p, {4}, DType::f32);
        for (int i = 0; i < 3; ++i, value = value + value) tl.send(Direction::east, value);
      },
      [](tl::Context& tl, tl::Pointer p) {
        tl::RecvFuture first = tl.recv_async(Direction::west, {4}, DType::f32);
        tl::RecvFuture second = tl.recv_async(Direction::west, {4}, DType::f32);
        tl::RecvFuture third = tl.recv_async(Direction::west, {2, 2}, DType::f32);
        const tl::Tensor three = tl.wait(third);
        CHECK(three.shape() == Shape{2, 2});
        tl.store(p + 8, three);
        tl.store(p, tl.wait(first));
        tl.store(p + 4, tl.wait(second));
      });
  const Floats got = pair.x.shard_to_vector(1);
  CHECK(Floats{got[0], got[4], got[8]} == Floats{1, 2, 4});
}

TEST_CASE("recv is a wait for a posted receive, to the picosecond", "[tl][recv_async][timing]") {
  const auto end_of = [](bool apart) {
    PairUnderTest pair({}, slow_cpu_topology());
    pair.run(
        [](tl::Context& tl, tl::Pointer p) {
          for (int i = 0; i < 9; ++i) tl.send(Direction::east, tl.load(p, {1000}, DType::f32));
        },
        [&](tl::Context& tl, tl::Pointer p) {
          for (int i = 0; i < 9; ++i) {
            if (!apart) tl.store(p, tl.recv(Direction::west, {1000}, DType::f32));
            if (apart) tl.store(p, tl.wait(tl.recv_async(Direction::west, {1000}, DType::f32)));
          }
        });
    return std::pair{pair.now(), pair.torch.engine().fingerprint()};
  };
  CHECK(end_of(true) == end_of(false));
}

TEST_CASE("PE_IPCQ takes a message in as soon as it is there, while the kernel does other things",
          "[tl][recv_async][timing]") {
  PairUnderTest pair({.depth = 1}, slow_cpu_topology());
  Time begin{0};
  pair.run(
      [&](tl::Context& tl, tl::Pointer p) {
        begin = pair.now();
        const tl::Tensor a = tl.load(p, {5}, DType::f32);  // issued at 10 ns, there at 64 ns
        for (int i = 0; i < 3; ++i) tl.send(Direction::east, a);
      },
      [&](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor a = tl.load(p, {5}, DType::f32);
        std::vector<tl::RecvFuture> futures;
        for (int i = 0; i < 3; ++i) {
          futures.push_back(tl.recv_async(Direction::west, {5}, DType::f32));
        }
        const tl::Tensor sum = a + a;  // 500 ns
        tl.drain();
        for (tl::RecvFuture& future : futures) tl.wait(future);
      });
  // A message takes 6 ns and 20 B at 20 GB/s, its pop 2.02 ns, the credit 4.8 ns; then the PE_CPU
  // needs 10 ns for the next send.
  const Time there{7'000};
  const Time round{7'000 + 2'020 + 4'800 + 10'000};
  CHECK(pair.send_times(begin) ==
        std::vector<Time>{Time{64'000}, Time{64'000} + round, Time{64'000} + 2 * round});
  CHECK(pair.recv_times(begin) == std::vector<Time>{Time{64'000} + there,
                                                    Time{64'000} + round + there,
                                                    Time{64'000} + 2 * round + there});
}

TEST_CASE("a message that was there before its post is taken in when the PE_CPU has issued that",
          "[tl][recv_async][timing]") {
  PairUnderTest pair({}, slow_cpu_topology());
  const bool late = GENERATE(false, true);
  Time begin{0};
  pair.run(sends(1, 5), [&](tl::Context& tl, tl::Pointer p) {
    begin = pair.now();
    const tl::Tensor a = tl.load(p, {5}, DType::f32);
    for (int i = 0; i < 9; ++i) a + a;
    if (late) tl.drain();  // until the last of them ends
    tl.recv(Direction::west, {5}, DType::f32);
  });
  // The message is there at 71 ns.  The post is the eleventh command; or the first after 4564 ns.
  CHECK(pair.recv_times(begin) == std::vector<Time>{Time{late ? 4'574'000 : 110'000}});
}

TEST_CASE("the PE_CPU's clock stands at the message's arrival after a wait for it",
          "[tl][recv_async][timing]") {
  PairUnderTest pair({}, slow_cpu_topology());
  Time begin{0};
  pair.run(sends(1, 5), [&](tl::Context& tl, tl::Pointer p) {
    begin = pair.now();
    tl.recv(Direction::west, {5}, DType::f32);
    tl.load(p, {5}, DType::f32);
  });
  // The message is sent at 64 ns and takes 7 ns; the load is issued 10 ns later.
  CHECK(pair.start_times(sim::OpKind::load, begin).back() == Time{71'000 + 10'000});
}

TEST_CASE("scratch for a message is taken when its receive is posted",
          "[tl][recv_async][scratch]") {
  PairUnderTest pair({.buffer_kind = sim::BufferKind::sram});
  const auto nothing = [](tl::Context&, tl::Pointer) {};
  const std::int64_t all = pair.torch.topology().pe.tcm.capacity / 4;
  CHECK_THAT(pair.device_error_of(nothing,
                                  [&](tl::Context& tl, tl::Pointer) {
                                    const tl::RecvFuture held =
                                        tl.recv_async(Direction::west, {all - 10}, DType::f32);
                                    tl.recv_async(Direction::west, {11}, DType::f32);
                                  }),
             Says("KB-M010", "tl.recv", "44 B", "40 B of 2097152 B",
                  "2097112 B: receives that are posted"));
  CHECK(simulation_of(pair.torch).machine().pe(PairUnderTest::kSecond).scratch_in_use() == 0);
}

TEST_CASE("a posted receive that is never waited for is an error of its kernel",
          "[tl][recv_async][error]") {
  PairUnderTest pair;
  const bool comes = GENERATE(false, true);
  const auto forget = [](tl::Context& tl, tl::Pointer) {
    for (int i = 0; i < 2; ++i) tl.recv_async(Direction::west, {4}, DType::f32);
  };
  for (int i = 0; i < 3; ++i) {
    CHECK_THAT(pair.device_error_of(sends(comes ? 2 : 0), forget),
               Says("KB-Q007", "'pair' on sip0.cube0.pe1", "2 at west", "tl.wait"));
    CHECK(pair.credits(0) == 4);
  }
}

TEST_CASE("a future is waited for once", "[tl][recv_async][error]") {
  PairUnderTest pair;
  const Says used_up("KB-Q008", "tl.wait in kernel 'pair' on sip0.cube0.pe1", "used up");
  CHECK_THAT(pair.device_error_of(sends(1),
                                  [](tl::Context& tl, tl::Pointer) {
                                    tl::RecvFuture future =
                                        tl.recv_async(Direction::west, {4}, DType::f32);
                                    tl.wait(future);
                                    tl.wait(future);
                                  }),
             used_up);
  CHECK_THAT(pair.device_error_of(
                 sends(1),
                 [](tl::Context& tl, tl::Pointer) {
                   tl::RecvFuture future = tl.recv_async(Direction::west, {4}, DType::f32);
                   const tl::RecvFuture other = std::move(future);
                   tl.wait(future);  // NOLINT(bugprone-use-after-move): that is what is tested
                 }),
             used_up);
}

TEST_CASE("a future is waited for in its own kernel", "[tl][recv_async][error]") {
  PairUnderTest pair;
  std::vector<tl::RecvFuture> kept;
  pair.device_error_of(sends(1), [&](tl::Context& tl, tl::Pointer) {
    kept.push_back(tl.recv_async(Direction::west, {4}, DType::f32));
  });
  CHECK_THAT(
      pair.device_error_of(sends(1), [&](tl::Context& tl, tl::Pointer) { tl.wait(kept.front()); }),
      Says("KB-Q008", "tl.wait", "'pair' on sip0.cube0.pe1"));
}

TEST_CASE("what is wrong with a message is said by the wait for it", "[tl][recv_async][error]") {
  PairUnderTest pair;
  bool posted = false;
  const std::string text = pair.device_error_of(sends(1), [&](tl::Context& tl, tl::Pointer p) {
    tl::RecvFuture future = tl.recv_async(Direction::west, {5}, DType::f32);
    tl.load(p, {1000}, DType::f32);
    tl.drain();
    posted = true;
    tl.wait(future);
  });
  CHECK(posted);
  CHECK_THAT(text, Says("KB-Q005", "tl.recv", "20 B of f32", "16 B of f32"));
  CHECK(pair.credits(0) == 4);
}

TEST_CASE("a deadlock report says since when, on the kernel's own clock, a message is missing",
          "[tl][recv_async][deadlock]") {
  PairUnderTest pair({}, slow_cpu_topology());
  Time begin{0};
  const std::string text = error_of<DeadlockError>([&] {
    pair.run([](tl::Context&, tl::Pointer) {},
             [&](tl::Context& tl, tl::Pointer) {
               begin = pair.now();
               tl::RecvFuture first = tl.recv_async(Direction::west, {4}, DType::f32);
               tl::RecvFuture second = tl.recv_async(Direction::west, {8}, DType::f32);
               tl.wait(second);
             });
  });
  CHECK_THAT(text, Says("KB-D001", "'pair' on sip0.cube0.pe1 waits for a message",
                        "sip0.cube0.pe0 east -> sip0.cube0.pe1 west (32 B; empty)",
                        "since t=" + to_string(begin + Time{20'000})));
}

TEST_CASE("receives of a kernel that is unwound are withdrawn", "[tl][recv_async][error]") {
  PairUnderTest pair({.depth = 2});
  const auto fail_with_posts = [](tl::Context& tl, tl::Pointer) {
    tl::RecvFuture first = tl.recv_async(Direction::west, {4}, DType::f32);
    tl::RecvFuture second = tl.recv_async(Direction::west, {4}, DType::f32);
    tl::RecvFuture third = tl.recv_async(Direction::west, {4}, DType::f32);
    tl.wait(first);
    throw std::runtime_error("boom");
  };
  for (int sent = 1; sent <= 5; ++sent) {
    CHECK_THAT(pair.device_error_of(sends(sent), fail_with_posts),
               Says("KB-K001", "'pair' on sip0.cube0.pe1", "boom"));
    CHECK(simulation_of(pair.torch).machine().pe(PairUnderTest::kSecond).scratch_in_use() == 0);
    pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 7), {4000}));
    CHECK(pair.credits(0) == 2);
    pair.run(sends(1), receives(1));
    CHECK(pair.x.shard_to_vector(1)[0] == 7);
  }
}

}  // namespace
}  // namespace kernbench::test::recv_async_test
