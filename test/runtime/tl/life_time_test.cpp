// How long values live, what fills scratch memory, and handles that outlive their kernel.

#include <catch2/catch.hpp>
#include <optional>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "sim_engine/components/processing_element.h"
#include "test/runtime/tl/tl_under_test.h"

namespace kernbench::test::life_time_test {
namespace {

constexpr DType f16 = DType::f16;
constexpr DType f32 = DType::f32;

Bytes scratch_in_use(const TlUnderTest& k, int pe = 0) {
  sim::Machine& machine = simulation_of(const_cast<TlUnderTest&>(k).torch).machine();
  return machine.pe({0, 0, pe}).scratch_in_use();
}

TEST_CASE("copies, moves and assignments of a handle hold a value once", "[tl][life_time]") {
  TlUnderTest k;
  std::vector<Bytes> in_use;
  k.run([&](tl::Context& tl) {
    const auto note = [&] {
      tl.drain();
      in_use.push_back(scratch_in_use(k));
    };
    tl::Tensor a = tl.zeros({10}, f32);
    tl::Tensor b = a;
    note();
    tl::Tensor c = std::move(a);
    note();
    b = tl.zeros({5}, f32);
    note();
    c = b;
    note();
    c = std::move(b);
    note();
    {
      std::vector<tl::Tensor> many;
      for (int i = 0; i < 9; ++i) many.push_back(c + i);
      note();
      many.erase(many.begin() + 2);
      std::swap(many[1], many[5]);
      note();
    }
    note();
  });
  CHECK(in_use == std::vector<Bytes>{40, 40, 60, 20, 20, 200, 180, 20});
  CHECK(scratch_in_use(k) == 0);
}

TEST_CASE("the error of full scratch names the largest holders", "[tl][life_time][error]") {
  Topology topology = one_lane_topology();
  topology.pe.tcm.capacity = 10'000;
  TlUnderTest k(topology);
  const tl::Pointer p = k.input(Elements(1000, 1), f16);
  const std::string text = k.error([&](tl::Context& tl) {
    const tl::Tensor loaded = tl.load(p, {10, 100}, f16);  // 2000 B
    const tl::Tensor wide = tl.cast(loaded, f32);          // 4000 B
    const tl::Tensor rows = tl.sum(loaded, 1);             // 20 B
    const tl::Tensor first = tl.narrow(tl.reshape(tl.full({2, 50}, 1, f32), {100}), 3, 1);
    std::vector<tl::Tensor> held;
    for (int i = 0; i < 3; ++i) held.push_back(-loaded * 1);  // the last does not fit
  });
  CHECK_THAT(text, Says("KB-M010", "a * b", "requested 2000 B", "1580 B of 10000 B"));
  CHECK(
      text.ends_with("\n  4000 B: tl.cast [10, 100] f32\n  2000 B: tl.load [10, 100] f16\n"
                     "  2000 B: -a [10, 100] f16\n  400 B: tl.narrow [1] f32\n"
                     "  20 B: tl.sum [10] f16"));
  CHECK(scratch_in_use(k) == 0);
}

TEST_CASE("of many holders five are listed, equal ones as one", "[tl][life_time][error]") {
  Topology topology = one_lane_topology();
  topology.pe.tcm.capacity = 10'000;
  TlUnderTest k(topology);
  const std::string text = k.error([&](tl::Context& tl) {
    std::vector<tl::Tensor> held;
    for (int i = 1; i <= 7; ++i) held.push_back(tl.zeros({i * 10}, f32));
    for (int i = 0; i < 4; ++i) held.push_back(tl.arange(0, 100));
    held.push_back(held[0]);  // a copy holds nothing of its own
    held.push_back(tl.reshape(held[1], {5, 4}));
    const tl::Tensor all = tl.cat(std::array{held[2], held[3]});
    tl.zeros({10'000}, f32);
  });
  CHECK(
      text.ends_with("\n  1600 B: 4 times tl.arange [100] f32, 400 B each\n"
                     "  280 B: tl.zeros [70] f32\n  240 B: tl.zeros [60] f32\n"
                     "  200 B: tl.zeros [50] f32\n  160 B: tl.zeros [40] f32\n  240 B: others"));
}

TEST_CASE("scratch is filled to the last byte and no further", "[tl][life_time][error]") {
  Topology topology = one_lane_topology();
  topology.pe.tcm.capacity = 1000;
  TlUnderTest k(topology);
  const auto holds = [&](std::int64_t more) {
    return k.error([=](tl::Context& tl) {
      const tl::Tensor a = tl.zeros({200}, f32);
      const tl::Tensor b = tl.zeros({more}, f16);
    });
  };
  CHECK(holds(99) == "no error");
  CHECK(holds(100) == "no error");
  CHECK_THAT(holds(101), Says("KB-M010", "202 B", "200 B of 1000 B", "800 B: tl.zeros [200] f32"));
  CHECK(holds(100) == "no error");  // the context works on
}

TEST_CASE("a handle that outlives its kernel holds nothing, and is refused", "[tl][life_time]") {
  TlUnderTest k;
  std::vector<tl::Tensor> kept;
  k.run([&](tl::Context& tl) {
    kept.push_back(tl.zeros({4}, f32));
    kept.push_back(kept.front());
  });
  CHECK(scratch_in_use(k) == 0);
  CHECK(kept[0].shape() == Shape{4});
  CHECK(kept[0].dtype() == f32);
  const tl::Pointer p = k.input({1, 2, 3, 4});
  const std::string why = "its kernel has ended";
  CHECK_THAT(k.error([&](tl::Context& tl) { tl.store(p, kept[0]); }),
             Says("KB-K023", "tl.store in kernel 'k'", why));
  CHECK_THAT(k.error([&](tl::Context& tl) { tl.exp(kept[1]); }),
             Says("KB-K023", "tl.exp in kernel 'k'", why));
  CHECK_THAT(k.error([&](tl::Context& tl) { tl.zeros({4}, f32) + kept[0]; }),
             Says("KB-K023", "a + b in kernel 'k'", why));
  CHECK_THAT(k.error([&](tl::Context&) { kept[0] + kept[1]; }),
             Says("KB-K023", "a + b on [4] f32", why));
  CHECK_THROWS_MATCHES(-kept[0], DeviceError, Says("KB-K023", "-a on [4] f32", why));
  tl::Tensor copy = kept[0];
  kept.erase(kept.begin());
  copy = kept[0];
}

TEST_CASE("a handle may outlive the whole simulation", "[tl][life_time]") {
  std::optional<tl::Tensor> kept;
  {
    TlUnderTest k;
    k.run([&](tl::Context& tl) { kept = tl.arange(0, 9); });
  }
  CHECK(kept->shape() == Shape{9});
  CHECK_THROWS_MATCHES(*kept * 2, DeviceError, Says("KB-K023"));
  const tl::Tensor copy = *kept;
  kept.reset();
}

TEST_CASE("handles of a kernel that fails are void", "[tl][life_time][error]") {
  TlUnderTest k;
  std::vector<tl::Tensor> kept;
  CHECK_THAT(k.error([&](tl::Context& tl) {
    kept.push_back(tl.zeros({4}, f32));
    throw std::runtime_error("no");
  }),
             Says("KB-K001", "'k' on sip0.cube0.pe0", "no"));
  CHECK(scratch_in_use(k) == 0);
  CHECK_THROWS_MATCHES(-kept[0], DeviceError, Says("KB-K023", "-a on [4] f32"));
}

TEST_CASE("a handle that was moved from is void", "[tl][life_time][error]") {
  TlUnderTest k;
  CHECK_THAT(k.error([](tl::Context& tl) {
    tl::Tensor a = tl.zeros({4}, f32);
    const tl::Tensor b = std::move(a);
    tl.abs(a);
  }),
             Says("KB-K023", "tl.abs in kernel 'k' on sip0.cube0.pe0", "moved from"));
}

TEST_CASE("values of two kernels that run at once are not mixed", "[tl][life_time][error]") {
  RuntimeContext torch(round_topology());
  const Tensor x = torch.ones({64}, {.dp = {.pe = Shard::column_wise}});
  const auto error = [&](const auto& use) {
    std::vector<tl::Tensor> kept;
    return error_of<DeviceError>([&] {
      torch.launch(
          "k",
          [&](tl::Context& tl, tl::Pointer p) {
            const tl::Tensor own = tl.load(p, {32}, f32);
            if (tl.program_id() == 0) {
              kept.push_back(own);
              tl.drain();
            } else {
              use(tl, own, kept.front());
            }
          },
          x);
    });
  };
  const std::string why = "of another kernel or PE";
  CHECK_THAT(error([](auto&, auto& own, auto& other) { own + other; }),
             Says("KB-K023", "a + b in kernel 'k' on sip0.cube0.pe1", why));
  CHECK_THAT(error([](auto&, auto& own, auto& other) { other + own; }),
             Says("KB-K023", "a + b", "kernel 'k' on sip0.cube0.pe0", "outside of it", why));
  CHECK_THAT(error([](auto& tl, auto&, auto& other) { tl.sum(other); }),
             Says("KB-K023", "tl.sum in kernel 'k' on sip0.cube0.pe1", why));
  for (const auto& use : {+[](tl::Context&tl, const tl::Tensor&y) { tl.cast(y, f16); },
                          +[](tl::Context&tl, const tl::Tensor&y) { tl.softmax(y); },
                          +[](tl::Context&tl, const tl::Tensor&y) { tl.reshape(y, {32}); },
                          +[](tl::Context&tl, const tl::Tensor&y) { tl.trans(y); },
                          +[](tl::Context&tl, const tl::Tensor&y) { tl.where(y, 1, 2); },
                          +[](tl::Context&tl, const tl::Tensor&y) { tl.narrow(y, 0, 1); }}) {
    CHECK_THAT(error([&](auto& tl, auto&, auto& other) { use(tl, other); }),
               Says("KB-K023", "in kernel 'k' on sip0.cube0.pe1", why));
  }
}

TEST_CASE("a kernel behind another one has all scratch, though that one's launch goes on",
          "[tl][life_time]") {
  Topology topology = round_topology();
  topology.pe.tcm.capacity = 10'000;
  RuntimeContext torch(topology);
  const DPPolicy dp{.pe = Shard::column_wise};
  std::vector<Time> ends;  // of the kernels on the first PE
  run_ranks(torch, 2, [&](int) {
    torch.ahbm.set_device(0);
    const Tensor x = torch.zeros({4000}, {.dp = dp});
    torch.launch(
        "k",
        [&](tl::Context& tl, tl::Pointer p) {
          for (int i = 0; i < 9 && tl.program_id() == 1; ++i) {
            tl.store(p, tl.load(p, {1000}, f32));
          }
          tl.load(p, {2000}, f32);
          tl.drain();
          if (tl.program_id() == 0) ends.push_back(torch.engine().now());
        },
        x);
    CHECK(ends.size() == 2);  // nobody's launch was over before
  });
}

}  // namespace
}  // namespace kernbench::test::life_time_test
