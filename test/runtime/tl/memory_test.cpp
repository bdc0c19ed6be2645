// tl.load, tl.store, arithmetic and scratch memory.

#include <catch2/catch.hpp>
#include <limits>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/processing_element.h"
#include "test/runtime/tl/pair_under_test.h"

namespace kernbench::test::memory_test {
namespace {

using Floats = std::vector<float>;

const auto kNothing = [](tl::Context&, tl::Pointer) {};

TEST_CASE("what a kernel stores is what it loaded and computed, in order", "[tl]") {
  RuntimeContext torch(round_topology());
  Tensor x = torch.zeros({6}, {.dp = DPPolicy::on_one_pe()});
  x.copy_(RuntimeContext::tensor({1, 2, 3, 4, 5, 6}, {6}));
  torch.launch(
      "k",
      [](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor a = tl.load(p, {3}, DType::f32);
        const tl::Tensor b = tl.load(p + 3, {3}, DType::f32);
        tl.store(p, a + b);
        tl.store(p + 3, b - a);
        const tl::Tensor sum = tl.load(p, {3}, DType::f32);  // of what was stored just now
        tl.store(p + 1, sum * sum);
      },
      x);
  CHECK(x.to_vector() == Floats{5, 25, 49, 81, 3, 3});
}

TEST_CASE("a pointer that is moved beyond all bounds does not come round to its tensor",
          "[tl][error]") {
  PairUnderTest pair;
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  const auto store = [&](const auto& move) {
    return pair.device_error_of(
        [=](tl::Context& tl, tl::Pointer p) { tl.store(move(p), tl.load(p, {1}, DType::f32)); });
  };
  CHECK_THAT(store([](tl::Pointer p) { return p + kFar + kFar + 2; }),
             Says("KB-M020", "tl.store", "18446744073709551616..18446744073709551616", "'x'",
                  "4000 elements"));
  CHECK_THAT(store([](tl::Pointer p) { return p + -kFar + -kFar; }), Says("KB-M020", "tl.store"));
  CHECK(store([](tl::Pointer p) { return p + kFar + kFar + -kFar + -kFar; }) == "no error");
}

TEST_CASE("a load beyond the shard is refused, up to its last element it is not", "[tl][error]") {
  PairUnderTest pair;
  const auto load = [&](std::int64_t offset, std::int64_t count) {
    return pair.device_error_of(
        [=](tl::Context& tl, tl::Pointer p) { tl.load(p + offset, {count}, DType::f32); });
  };
  CHECK(load(0, 4000) == "no error");
  CHECK(load(3999, 1) == "no error");
  CHECK(load(4000, 0) == "no error");
  CHECK_THAT(load(0, 4001), Says("KB-M020", "tl.load", "0..4000", "'x'", "4000 elements"));
  CHECK_THAT(load(4000, 1), Says("KB-M020", "4000..4000"));
  CHECK_THAT(load(-1, 2), Says("KB-M020", "-1..0"));
  CHECK_THAT(load(1LL << 31, 1), Says("KB-M020", "2147483648..2147483648"));
}

TEST_CASE("a store beyond the shard is refused and leaves the neighbours alone", "[tl][error]") {
  RuntimeContext torch(round_topology());
  const Tensor before = torch.full({64}, 1, {.dp = DPPolicy::on_one_pe()});
  const Tensor x = torch.zeros({64}, {.dp = DPPolicy::on_one_pe(), .name = "x"});
  const Tensor after = torch.full({64}, 2, {.dp = DPPolicy::on_one_pe()});
  torch.launch(
      "k", [](tl::Context& tl, tl::Pointer p) { tl.store(p + 60, tl.load(p, {5}, DType::f32)); },
      x);
  CHECK_THROWS_MATCHES(
      torch.ahbm.synchronize(), DeviceError,
      Says("KB-M020", "tl.store in kernel 'k' on sip0.cube0.pe0", "60..64", "'x'", "64 elements"));
  CHECK(before.to_vector() == Floats(64, 1));
  CHECK(after.to_vector() == Floats(64, 2));
}

TEST_CASE("no access can be misaligned: shards begin at multiples of 256 B", "[tl]") {
  RuntimeContext torch(round_topology());
  for (const DType dtype : {DType::f16, DType::f32, DType::bf16}) {
    const Tensor x = torch.ones({7}, {.dtype = dtype, .dp = {.pe = Shard::column_wise}});
    for (const auto& shard : x.shards()) CHECK(shard.address % 256 == 0);
  }
}

TEST_CASE("types and shapes must agree", "[tl][error]") {
  PairUnderTest pair;
  CHECK_THAT(
      pair.device_error_of([](tl::Context& tl, tl::Pointer p) { tl.load(p, {1}, DType::f16); }),
      Says("KB-K021", "tl.load", "'x' is f32, not f16"));
  CHECK_THAT(pair.device_error_of([](tl::Context& tl, tl::Pointer p) {
    const tl::Tensor sum = tl.load(p, {2, 3}, DType::f32) + tl.load(p, {6}, DType::f32);
  }),
             Says("KB-K020", "a + b", "[2, 3] f32", "[6] f32"));
  const Tensor half = pair.torch.zeros({4}, {.dtype = DType::f16, .dp = {.num_cubes = 1}});
  CHECK_THAT(pair.device_error_of([&](tl::Context& tl, tl::Pointer p) {
    const tl::Pointer other = RuntimeContext::pointer_to(half, tl.location());
    tl.store(other, tl.load(p, {4}, DType::f32));
  }),
             Says("KB-K021", "tl.store", "'tensor1' is f16, not f32"));
}

TEST_CASE("scratch that is held by values runs out, and says what is free", "[tl][error]") {
  PairUnderTest pair({.depth = 1, .slot_bytes = 16});  // its slot takes 16 B of the 2 MiB
  CHECK_THAT(
      pair.device_error_of([](tl::Context& tl, tl::Pointer p) {
        std::vector<tl::Tensor> held;
        for (int i = 0; i < 200; ++i) held.push_back(tl.load(p, {4000}, DType::f32));
      }),
      Says("KB-M010", "tl.load", "16000 B", "1136 B of 2097136 B", "131 times tl.load [4000] f32"));
}

TEST_CASE("scratch is used again as soon as its last handle is gone", "[tl]") {
  PairUnderTest pair;
  pair.run(
      [](tl::Context& tl, tl::Pointer p) {
        for (int i = 0; i < 2000; ++i) {  // 32 MB through 2 MiB
          tl.store(p, tl.load(p, {4000}, DType::f32) + tl.load(p, {4000}, DType::f32));
        }
      },
      kNothing);
  CHECK(simulation_of(pair.torch).machine().pe(PairUnderTest::kFirst).scratch_in_use() == 0);
}

TEST_CASE("commands that do not depend on each other overlap", "[tl][timing]") {
  Topology topology = round_topology();
  topology.pe.math_clock = Frequency{1'000'000'000};  // an element per ns
  PairUnderTest pair({}, topology);
  Time took{0};
  pair.run(
      [&](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor a = tl.load(p, {1000}, DType::f32);
        tl.drain();
        const Time begin = pair.now();
        const tl::Tensor sum = a + a;                         // 1000 ns
        const tl::Tensor b = tl.load(p, {2000}, DType::f32);  // 453 ns, meanwhile
        tl.drain();
        took = pair.now() - begin;
      },
      kNothing);
  CHECK(took == Time{1'000'000});
}

TEST_CASE("a load waits for a store to the same elements, not for one to others", "[tl][timing]") {
  const auto time_of = [](std::int64_t load_at) {
    PairUnderTest pair;
    Time took{0};
    pair.run(
        [&](tl::Context& tl, tl::Pointer p) {
          const tl::Tensor a = tl.load(p, {1000}, DType::f32);
          tl.drain();
          const Time begin = pair.now();
          tl.store(p, a);
          tl.load(p + load_at, {1000}, DType::f32);
          tl.drain();
          took = pair.now() - begin;
        },
        kNothing);
    return took;
  };
  // Each way: TCM 1, NoC 2, HBM 50 ns, and 4000 B at 20 GB/s.  They share the HBM slice (100 ns for
  // 4000 B at 40 GB/s) but no port.
  CHECK(time_of(500) == 2 * Time{253'000});
  CHECK(time_of(2000) == Time{253'000});
}

TEST_CASE("two PEs that touch the same elements with nothing between them race",
          "[tl][race][error]") {
  PairUnderTest pair;
  const auto race = [&](std::int64_t first_of_other) {
    return pair.device_error_of(
        [&](tl::Context& tl, tl::Pointer p) { tl.store(p, tl.load(p, {100}, DType::f32)); },
        [&, first_of_other](tl::Context& tl, tl::Pointer p) {
          const tl::Pointer other = RuntimeContext::pointer_to(pair.x, PairUnderTest::kFirst);
          tl.store(other + first_of_other, tl.load(p, {100}, DType::f32));
        });
  };
  CHECK(race(100) == "no error");
  const std::string text = race(99);
  CHECK_THAT(text, Says("KB-M030", "99..99", "tl.store by sip0.cube0.pe0 writes elements 0..99",
                        "tl.store by sip0.cube0.pe1 writes elements 99..198"));
  CHECK(race(100) == "no error");  // and the context works on
}

TEST_CASE("a message between two accesses orders them", "[tl][race]") {
  PairUnderTest pair;
  pair.x.copy_shard_(1, RuntimeContext::tensor(Floats(4000, 3), {4000}));
  pair.run(
      [&](tl::Context& tl, tl::Pointer p) {
        tl.store(p, tl.load(p, {100}, DType::f32));
        tl.drain();
        tl.send(tl::Direction::east, tl.load(p, {1}, DType::f32));
      },
      [&](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor token = tl.recv(tl::Direction::west, {1}, DType::f32);
        const tl::Pointer other = RuntimeContext::pointer_to(pair.x, PairUnderTest::kFirst);
        tl.store(other, tl.load(p, {100}, DType::f32));
      });
  CHECK(pair.x.shard_to_vector(0)[99] == 3);
}

}  // namespace
}  // namespace kernbench::test::memory_test
