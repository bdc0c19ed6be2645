// tl.composite: what is refused, and races.

#include <catch2/catch.hpp>
#include <optional>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/processing_element.h"
#include "test/runtime/tl/composite_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::test::composite_misuse_test {
namespace {

const std::string kWhere = "in kernel 'gemm' on sip0.cube0.pe0";

// [8, 6] x [6, 10] of f16, c in f32.
std::string refusal(const std::function<void(tl::CompositeGemm&)>& change) {
  CompositeUnderTest gemm({8, 10, 6});
  const std::string text = error_of<DeviceError>([&] { gemm.run(change); });
  gemm.run();  // the context works on
  CHECK(gemm.c.to_vector() == gemm.expected());
  return text;
}

TEST_CASE("sizes that are none are refused", "[tl][composite][error]") {
  const char* range = "from 1 to 2147483647";
  CHECK_THAT(refusal([](auto& gemm) { gemm.m = 0; }),
             Says("KB-K033", kWhere, "m 0, n 10, k 6", range));
  CHECK_THAT(refusal([](auto& gemm) { gemm.k = std::int64_t{1} << 40; }),
             Says("KB-K033", kWhere, "k 1099511627776", range));
  CHECK_THAT(refusal([](auto& gemm) { gemm.tile_n = -1; }),
             Says("KB-K033", kWhere, "tile_m 0, tile_n -1, tile_k 0", range));
}

TEST_CASE("operands beyond their shards are refused by name", "[tl][composite][error]") {
  CHECK_THAT(refusal([](auto& gemm) { gemm.k = 7; }),
             Says("KB-M020", "tl.composite (a)", kWhere, "0..55", "'a'", "48 elements"));
  CHECK_THAT(refusal([](auto& gemm) { gemm.b = gemm.b + 1; }),
             Says("KB-M020", "tl.composite (b)", kWhere, "1..60", "'b'", "60 elements"));
  CHECK_THAT(refusal([](auto& gemm) { gemm.c_pitch = 11; }),
             Says("KB-M020", "tl.composite (c)", kWhere, "0..86", "'c'", "80 elements"));
  CHECK_THAT(refusal([](auto& gemm) { gemm.c = {}; }),
             Says("KB-M020", "tl.composite (c)", kWhere, "points at no tensor", "launch()"));
  CHECK_THAT(refusal([](auto& gemm) { gemm.a_pitch = std::int64_t{1} << 62; }),
             Says("KB-M020", "tl.composite (a)"));
}

TEST_CASE("pitches smaller than a row are refused", "[tl][composite][error]") {
  CHECK_THAT(refusal([](auto& gemm) { gemm.a_pitch = 5; }),
             Says("KB-K032", "tl.composite (a)", kWhere, "[8, 6]", "5 elements"));
}

TEST_CASE("blocks and readers that cannot be are refused", "[tl][composite][error]") {
  CHECK_THAT(refusal([](auto& gemm) {
               gemm.a_further = {{4, gemm.a}, {4, gemm.a}};
             }),
             Says("KB-K033", kWhere, "a begins at row 4 and the next one at 4", "below 8"));
  CHECK_THAT(refusal([](auto& gemm) {
               gemm.b_further = {{6, gemm.b}};
             }),
             Says("KB-K033", kWhere, "b begins at row 6", "below 6"));
  CHECK_THAT(refusal([](auto& gemm) {
               gemm.b_further = {{-1, gemm.b}};
             }),
             Says("KB-K033", kWhere, "b begins at row 0 and the next one at -1"));
  CHECK_THAT(refusal([](auto& gemm) {
               gemm.a_further = {{4, gemm.c}};
             }),
             Says("KB-K021", "tl.composite (a)", kWhere));
  CHECK_THAT(refusal([](auto& gemm) {
               gemm.c_further = {{8, gemm.c}};
             }),
             Says("KB-K033", kWhere, "c begins at row 8", "below 8"));
  CHECK_THAT(refusal([](auto& gemm) { gemm.a_readers = {.in_cube = 2, .in_launch = 1}; }),
             Says("KB-K033", kWhere, "a has 2 readers in the cube and 1 in the launch"));
}

TEST_CASE("a list of blocks that was checked is checked for other columns",
          "[tl][composite][error]") {
  CompositeUnderTest gemm({4, 4, 6}, DType::f16);
  const Tensor wide = gemm.torch.zeros({6, 10}, {.dtype = DType::f16});
  const tl::Pointer first = RuntimeContext::pointer_to(wide, {0, 0, 0});
  const tl::FurtherBlocks further = {{2, first + 20}};
  const auto from = [&](std::int64_t column) {
    return error_of<DeviceError>([&] {
      gemm.run([&](tl::CompositeGemm& composite) {
        composite.b = first + column;
        composite.b_pitch = 10;
        composite.b_further = further + column;
      });
    });
  };
  CHECK(from(0) == "no error");
  CHECK(from(6) == "no error");
  CHECK_THAT(from(7), Says("KB-M020", "tl.composite (b)", "27..60", "60 elements"));
  CHECK_THAT(from(-21), Says("KB-M020", "tl.composite (b)"));
  CHECK(from(3) == "no error");
}

TEST_CASE("types that do not fit are refused", "[tl][composite][error]") {
  CHECK_THAT(refusal([](auto& gemm) { gemm.out_dtype = DType::f16; }),
             Says("KB-K021", "tl.composite (c)", kWhere, "'c' is f32, not f16"));
  CHECK_THAT(refusal([](auto& gemm) { gemm.b = gemm.c; }),
             Says("KB-K031", kWhere, "a is f16", "b is f32"));
}

TEST_CASE("a result that overlaps an operand is refused", "[tl][composite][error]") {
  CompositeUnderTest gemm({4, 4, 4}, DType::f32);
  const std::string text = error_of<DeviceError>(
      [&] { gemm.run([](tl::CompositeGemm& composite) { composite.c = composite.b; }); });
  CHECK_THAT(text, Says("KB-K034", kWhere, "c overlaps b"));
}

TEST_CASE("tiles that can never fit scratch are refused, others wait for it",
          "[tl][composite][error]") {
  Topology topology = round_topology();
  topology.pe.tcm.capacity = 4096;
  CompositeUnderTest gemm({64, 64, 64}, DType::f16, DType::f32, topology);
  const auto with_tile = [&](std::int64_t side) {
    return error_of<DeviceError>([&] { gemm.run(sim::GemmSize{side, side, side}); });
  };
  CHECK(with_tile(16) == "no error");  // 2 * (2 * 512 + 1024): all of it
  CHECK_THAT(with_tile(17), Says("KB-K035", kWhere, "m 17, n 17, k 17", "4624 B", "4096 B"));
}

TEST_CASE("a composite waits for scratch that commands under way hold", "[tl][composite]") {
  Topology topology = round_topology();
  topology.pe.tcm.capacity = 4096;
  CompositeUnderTest gemm({64, 64, 64}, DType::f16, DType::f32, topology);
  gemm.torch.launch(
      "gemm",
      [&](tl::Context& tl, tl::Pointer a, tl::Pointer b, tl::Pointer c) {
        tl.store(c, tl.load(c, {1000}, DType::f32));  // 4000 B, given back when it is stored
        tl.composite(composite_of(a, b, c, gemm.size, {16, 16, 16}));
      },
      gemm.a, gemm.b, gemm.c);
  CHECK(gemm.c.to_vector() == gemm.expected());
  const std::string text = error_of<DeviceError>([&] {
    gemm.torch.launch(
        "gemm",
        [&](tl::Context& tl, tl::Pointer a, tl::Pointer b, tl::Pointer c) {
          const tl::Tensor held = tl.load(c, {1000}, DType::f32);
          tl.composite({.a = a, .b = b, .c = c, .m = 64, .n = 64, .k = 64, .tile_m = 16});
          tl.store(c, held);
        },
        gemm.a, gemm.b, gemm.c);
    gemm.torch.ahbm.synchronize();
  });
  CHECK_THAT(text, Says("KB-M010", "tl.composite"));
}

TEST_CASE("composites of two PEs may store columns of one matrix, not the same ones",
          "[tl][composite][race]") {
  RuntimeContext torch(round_topology());
  const DPPolicy copies{.cube = Shard::replicate, .pe = Shard::replicate, .num_cubes = 1};
  const Tensor a = torch.ones({8, 6}, {.dtype = DType::f16, .dp = copies});
  const Tensor b = torch.ones({6, 10}, {.dtype = DType::f16, .dp = copies});
  const Tensor c = torch.zeros({8, 20}, {.dtype = DType::f32, .dp = DPPolicy::on_one_pe()});
  const auto columns_of_second = [&](std::int64_t first) {
    return error_of<DeviceError>([&] {
      torch.launch(
          "gemm",
          [&](tl::Context& tl, tl::Pointer pa, tl::Pointer pb) {
            const tl::Pointer pc = RuntimeContext::pointer_to(c, {0, 0, 0});
            tl::CompositeGemm gemm = composite_of(pa, pb, pc + (tl.program_id() == 0 ? 0 : first),
                                                  {8, 10, 6}, {4, 10, 6});
            gemm.c_pitch = 20;
            tl.composite(gemm);
          },
          a, b);
    });
  };
  CHECK(columns_of_second(10) == "no error");
  CHECK(c.to_vector() == Floats(160, 6));
  const std::string text = columns_of_second(9);
  CHECK_THAT(text, Says("KB-M030", "9..9", "tl.composite by sip0.cube0.pe0",
                        "0..9 and 7 more rows, 20 apart"));
}

TEST_CASE("a store to an operand while a composite is under way is a race, whatever tile it is at",
          "[tl][composite][race]") {
  const int delay = GENERATE(0, 10);  // of 106 ns and more: by then row 0 is read
  RuntimeContext torch(round_topology());
  const DPPolicy copies{.cube = Shard::replicate, .pe = Shard::replicate, .num_cubes = 1};
  const Tensor a = torch.ones({40, 40}, {.dtype = DType::f32, .dp = copies, .name = "a"});
  const Tensor c = torch.zeros({40, 40}, {.dtype = DType::f32, .dp = copies});
  const auto multiply = [](tl::Context& tl, tl::Pointer pa, tl::Pointer pc) {
    tl.composite(composite_of(pa, pa, pc, {40, 40, 40}, {10, 10, 10}));
  };
  const auto store = [&](tl::Context& tl, tl::Pointer pa, tl::Pointer pc) {
    const tl::Tensor one = tl.load(pa, {1}, DType::f32);
    for (int i = 0; i < delay; ++i) {
      tl.store(pc, one);
      tl.load(pc, {1}, DType::f32);
    }
    tl.store(RuntimeContext::pointer_to(a, {0, 0, 0}), one);
  };
  const std::string text = error_of<DeviceError>([&] {
    torch.launch(
        "gemm",
        [&](tl::Context& tl, tl::Pointer pa, tl::Pointer pc) {
          tl.program_id() == 0 ? multiply(tl, pa, pc) : store(tl, pa, pc);
        },
        a, c);
  });
  CHECK_THAT(text, Says("KB-M030", "tl.composite by sip0.cube0.pe0", "0..1599",
                        "tl.store by sip0.cube0.pe1", "0..0"));
}

TEST_CASE("a kernel that fails while a composite is under way ends as any other",
          "[tl][composite][error]") {
  CompositeUnderTest gemm({40, 40, 40});
  const std::string text = error_of<DeviceError>([&] {
    gemm.torch.launch(
        "gemm",
        [](tl::Context& tl, tl::Pointer a, tl::Pointer b, tl::Pointer c) {
          tl.composite({.a = a, .b = b, .c = c, .m = 40, .n = 40, .k = 40, .tile_m = 8});
          tl.load(a, {1}, DType::f32);
        },
        gemm.a, gemm.b, gemm.c);
    gemm.torch.ahbm.synchronize();
  });
  CHECK_THAT(text, Says("KB-K021", "tl.load"));
  CHECK(simulation_of(gemm.torch).machine().pe({0, 0, 0}).scratch_in_use() == 0);
  gemm.run();
  CHECK(gemm.c.to_vector() == gemm.expected());
}

struct TilesOfComposite {
  std::string error;
  std::int64_t products = 0;
};

// 128 x 128 x 128 on 32 x 32 multipliers, after `before`.
TilesOfComposite tiles_after(
    const std::function<tl::Tensor(tl::Context&, const tl::Pointer&)>& before, bool holds) {
  Topology topology = round_topology();
  topology.pe.tcm.capacity = 64 * 1024;
  topology.pe.gemm.rows = topology.pe.gemm.columns = 32;
  CompositeUnderTest gemm({128, 128, 128}, DType::f16, DType::f32, topology);
  const auto kernel = [&](tl::Context& tl, tl::Pointer a, tl::Pointer b, tl::Pointer c) {
    std::optional<tl::Tensor> held = before(tl, c);
    if (!holds) held.reset();
    tl.composite({.a = a, .b = b, .c = c, .m = 128, .n = 128, .k = 128});
  };
  TilesOfComposite tiles;
  tiles.error =
      error_of<DeviceError>([&] { gemm.torch.launch("gemm", kernel, gemm.a, gemm.b, gemm.c); });
  if (tiles.error == "no error") CHECK(gemm.c.to_vector() == gemm.expected());
  tiles.products = gemm.log().count(sim::OpKind::gemm);
  return tiles;
}

TEST_CASE("tiles are chosen for the scratch that is free when all before is done",
          "[tl][composite]") {
  const auto alone = tiles_after([](auto& tl, auto&) { return tl.zeros({1}, DType::f32); }, false);
  const auto behind_a_store = tiles_after(
      [](tl::Context& tl, const tl::Pointer& c) {
        tl::Tensor big = tl.load(c, {16'000}, DType::f32);  // 64,000 B, until it is stored
        tl.store(c, big);
        return big;
      },
      false);
  CHECK(alone.error == "no error");
  CHECK(behind_a_store.error == "no error");
  CHECK(behind_a_store.products == alone.products);
}

TEST_CASE("a kernel that holds so much that no fold of the array fits is told what it holds",
          "[tl][composite][error]") {
  const auto holding = [](std::int64_t count) {
    return tiles_after([=](auto& tl, auto& c) { return tl.load(c, {count}, DType::f32); }, true);
  };
  // Two of 32 x 32 each, of 2 * 2048 B operands and 4096 B of sums: 16,384 B.
  CHECK(holding(12 * 1024).error == "no error");
  CHECK(holding(12 * 1024).products == 64);
  CHECK_THAT(holding(12 * 1024 + 1).error, Says("KB-M010", kWhere, "16384 B", "16380 B of 65536 B",
                                                "49156 B: tl.load [12289] f32"));
}

}  // namespace
}  // namespace kernbench::test::composite_misuse_test
