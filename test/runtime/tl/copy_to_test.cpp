// tl.send(..., tl::copy_to): straight into a posted receive's destination.

#include <catch2/catch.hpp>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/processing_element.h"
#include "test/runtime/tl/pair_under_test.h"

namespace kernbench::test::copy_to_test {
namespace {

using Floats = std::vector<float>;
using tl::Direction;

Topology math_topology() {
  Topology topology = round_topology();
  topology.pe.math_clock = Frequency{1'000'000'000};  // 1 ns per element
  return topology;
}

TEST_CASE("a copied message is there after the way between the scratches, and usable at once",
          "[tl][copy_to][timing]") {
  const auto kind = GENERATE(sim::BufferKind::tcm, sim::BufferKind::sram, sim::BufferKind::hbm);
  PairUnderTest pair({.buffer_kind = kind}, math_topology());
  pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 3), {4000}));
  Time begin{0};
  pair.run(
      [](tl::Context& tl, tl::Pointer p) {
        tl.send(Direction::east, tl.load(p, {1000}, DType::f32), tl::copy_to);
      },
      [&](tl::Context& tl, tl::Pointer p) {
        begin = pair.now();
        const tl::Tensor got = tl.recv(Direction::west, {1000}, DType::f32);
        tl.store(p, got + got);
      });
  // Loaded after 53 ns and 4000 B at 20 GB/s.  The way is 6 ns and 4000 B at 20 GB/s.
  CHECK(pair.send_times(begin) == std::vector<Time>{Time{253'000}});
  CHECK(pair.recv_times(begin) == std::vector<Time>{Time{253'000 + 206'000}});
  CHECK(pair.start_times(sim::OpKind::math, begin) == std::vector<Time>{Time{459'000}});
  CHECK(pair.x.shard_to_vector(1)[999] == 6);
  CHECK(pair.credits(0) == 4);
}

TEST_CASE("a copy waits for the news of a posted receive, which takes what a credit takes",
          "[tl][copy_to][timing]") {
  PairUnderTest pair({}, math_topology());
  Time begin{0};
  pair.run(
      [](tl::Context& tl, tl::Pointer p) {
        tl.send(Direction::east, tl.load(p, {5}, DType::f32), tl::copy_to);
      },
      [&](tl::Context& tl, tl::Pointer p) {
        begin = pair.now();
        const tl::Tensor a = tl.load(p, {1000}, DType::f32);
        const tl::Tensor sum = a + a;
        tl.drain();  // until 1253 ns
        tl.recv(Direction::west, {5}, DType::f32);
      });
  CHECK(pair.send_times(begin) == std::vector<Time>{Time{1'253'000 + 4'800}});
  CHECK(pair.recv_times(begin) == std::vector<Time>{Time{1'253'000 + 4'800 + 7'000}});
}

TEST_CASE("neither the size of a slot nor the number of slots limits copies",
          "[tl][copy_to][timing]") {
  PairUnderTest pair({.depth = 1, .slot_bytes = 4});
  Time begin{0};
  pair.run(
      [](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor a = tl.load(p, {1000}, DType::f32);
        for (int i = 0; i < 8; ++i) tl.send(Direction::east, a, tl::copy_to);
      },
      [&](tl::Context& tl, tl::Pointer) {
        begin = pair.now();
        std::vector<tl::RecvFuture> futures;
        for (int i = 0; i < 8; ++i) {
          futures.push_back(tl.recv_async(Direction::west, {1000}, DType::f32));
        }
        for (tl::RecvFuture& future : futures) tl.wait(future);
      });
  std::vector<Time> expected;  // back to back at 20 GB/s
  for (int i = 1; i <= 8; ++i) expected.push_back(Time{253'000 + 6'000 + i * 200'000});
  CHECK(pair.recv_times(begin) == expected);
}

TEST_CASE("messages of one queue keep their order, copied or not", "[tl][copy_to]") {
  const auto kind = GENERATE(sim::BufferKind::tcm, sim::BufferKind::hbm);
  const unsigned copied = GENERATE(range(0U, 16U));  // bit i: message i is
  PairUnderTest pair({.buffer_kind = kind, .depth = 2});
  pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 1), {4000}));
  pair.run(
      [&](tl::Context& tl, tl::Pointer p) {
        tl::Tensor value = tl.load(p, {4}, DType::f32);
        for (unsigned i = 0; i < 4; ++i, value = value + value) {
          if ((copied >> i & 1U) != 0) {
            tl.send(Direction::east, value, tl::copy_to);
          } else {
            tl.send(Direction::east, value);
          }
        }
      },
      [](tl::Context& tl, tl::Pointer p) {
        std::vector<tl::RecvFuture> futures;
        for (int i = 0; i < 4; ++i)
          futures.push_back(tl.recv_async(Direction::west, {4}, DType::f32));
        for (int i = 3; i >= 0; --i)
          tl.store(p + 4 * i, tl.wait(futures[static_cast<std::size_t>(i)]));
      });
  const Floats got = pair.x.shard_to_vector(1);
  CHECK(Floats{got[0], got[4], got[8], got[12]} == Floats{1, 2, 4, 8});
  CHECK(pair.torch.engine().op_log().count(sim::OpKind::send) == 4);
  CHECK(pair.torch.engine().op_log().count(sim::OpKind::recv) == 4);
  CHECK(pair.credits(0) == 2);
}

TEST_CASE("a copied message must be what the receiver expects", "[tl][copy_to][error]") {
  PairUnderTest pair;
  for (int i = 0; i < 2; ++i) {
    CHECK_THAT(pair.device_error_of(
                   [](tl::Context& tl, tl::Pointer p) {
                     tl.send(Direction::east, tl.load(p, {16}, DType::f32), tl::copy_to);
                   },
                   [](tl::Context& tl, tl::Pointer) { tl.recv(Direction::west, {8}, DType::f32); }),
               Says("KB-Q005", "tl.recv in kernel 'pair' on sip0.cube0.pe1", "32 B of f32",
                    "64 B of f32"));
  }
  CHECK_THAT(
      pair.device_error_of([](tl::Context& tl, tl::Pointer p) {
        tl.send(Direction::south, tl.load(p, {16}, DType::f32), tl::copy_to);
      }),
      Says("KB-Q006", "tl.send in kernel 'pair' on sip0.cube0.pe0", "south", "there are: east"));
}

TEST_CASE("kernels that all copy before they post a receive are a deadlock with its cycle",
          "[tl][copy_to][deadlock]") {
  PairUnderTest pair;
  const auto body = [](Direction direction) {
    return [=](tl::Context& tl, tl::Pointer p) {
      tl.send(direction, tl.load(p, {4}, DType::f32), tl::copy_to);
      tl.recv(direction, {4}, DType::f32);
    };
  };
  CHECK_THROWS_MATCHES(pair.run(body(Direction::east), body(Direction::west)), DeadlockError,
                       Says("KB-D001", "t=271.04 ns", "posted receive of ipcq sip0.cube0.pe0 east",
                            "wait-for cycle: sip0.cube0.pe0 -> sip0.cube0.pe1"));
}

TEST_CASE("a copy whose receiver fails meanwhile is dropped, and the queue works on",
          "[tl][copy_to][error]") {
  PairUnderTest pair;
  for (int posts = 1; posts <= 3; ++posts) {
    CHECK_THAT(pair.device_error_of(
                   [](tl::Context& tl, tl::Pointer p) {
                     tl.send(Direction::east, tl.load(p, {1000}, DType::f32), tl::copy_to);
                     tl.send(Direction::east, tl.load(p, {4}, DType::f32), tl::copy_to);
                   },
                   [&](tl::Context& tl, tl::Pointer p) {
                     std::vector<tl::RecvFuture> futures;
                     for (int i = 0; i < posts; ++i) {
                       futures.push_back(tl.recv_async(Direction::west, {1000}, DType::f32));
                     }
                     tl.load(p, {1000}, DType::f32);
                     tl.drain();  // the copy has begun
                     throw std::runtime_error("boom");
                   }),
               Says("KB-K001", "'pair' on sip0.cube0.pe1", "boom"));
    CHECK(simulation_of(pair.torch).machine().pe(PairUnderTest::kSecond).scratch_in_use() == 0);
    pair.x.copy_shard_(0, RuntimeContext::tensor(Floats(4000, 7), {4000}));
    pair.run(
        [](tl::Context& tl, tl::Pointer p) {
          tl.send(Direction::east, tl.load(p, {4}, DType::f32), tl::copy_to);
          tl.send(Direction::east, tl.load(p, {8}, DType::f32));
        },
        [](tl::Context& tl, tl::Pointer p) {
          tl.store(p, tl.recv(Direction::west, {4}, DType::f32));
          tl.store(p + 4, tl.recv(Direction::west, {8}, DType::f32));
        });
    CHECK(pair.x.shard_to_vector(1)[11] == 7);
    CHECK(pair.credits(0) == 4);
  }
}

}  // namespace
}  // namespace kernbench::test::copy_to_test
