// tl.composite: what it computes.

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <utility>

#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "sim_engine/components/processing_element.h"
#include "test/runtime/tl/composite_under_test.h"

namespace kernbench::test::composite_test {
namespace {

void set_tiles(tl::CompositeGemm& gemm, const sim::GemmSize& tile) {
  gemm.tile_m = tile.m;
  gemm.tile_n = tile.n;
  gemm.tile_k = tile.k;
}

Floats magnitudes_of(Floats elements) {
  for (float& element : elements) element = std::abs(element);
  return elements;
}

double reference(tl::Activation activation, double x) {
  switch (activation) {
    case tl::Activation::none:
      return x;
    case tl::Activation::relu:
      return std::max(x, 0.0);
    case tl::Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case tl::Activation::silu:
      return x / (1 + std::exp(-x));
    case tl::Activation::gelu:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

TEST_CASE("composite is the product, whatever the tiles", "[tl][composite]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const sim::GemmSize tile =
      GENERATE(sim::GemmSize{20, 30, 40}, sim::GemmSize{8, 8, 8}, sim::GemmSize{7, 11, 13},
               sim::GemmSize{1, 1, 1}, sim::GemmSize{20, 1, 3}, sim::GemmSize{100, 100, 100},
               sim::GemmSize{0, 0, 0});
  CompositeUnderTest gemm({20, 30, 40}, dtype);
  gemm.run(tile);
  CHECK(gemm.c.to_vector() == gemm.expected());
}

TEST_CASE("sums of real numbers are within the error of f32, whatever the tiles",
          "[tl][composite]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const sim::GemmSize tile =
      GENERATE(sim::GemmSize{37, 41, 203}, sim::GemmSize{16, 8, 50}, sim::GemmSize{5, 41, 1});
  CompositeUnderTest gemm({37, 41, 203}, dtype);
  gemm.set_operands(reals(37 * 203, 1), reals(203 * 41, 2));
  gemm.run(tile);
  const Floats c = gemm.c.to_vector();
  const std::vector<double> exact = product_of(gemm.size, gemm.a_elements, gemm.b_elements);
  const std::vector<double> magnitudes =
      product_of(gemm.size, magnitudes_of(gemm.a_elements), magnitudes_of(gemm.b_elements));
  // Each of 203 products is rounded at most once, and so is each of the sums: in any order an
  // element is off by no more than (1 + u)^204 - 1 of the sum of magnitudes (Higham, 3.1).
  const double gamma = std::pow(1 + 0x1p-24, 204) - 1;
  bool is_exact = true;
  for (std::size_t i = 0; i < c.size(); ++i) {
    REQUIRE(std::abs(static_cast<double>(c[i]) - exact[i]) <= gamma * magnitudes[i]);
    is_exact = is_exact && static_cast<double>(c[i]) == exact[i];
  }
  CHECK_FALSE(is_exact);  // the data do make rounding errors
}

TEST_CASE("so it is for sizes of one, and smaller than the array", "[tl][composite]") {
  const sim::GemmSize size =
      GENERATE(sim::GemmSize{1, 1, 1}, sim::GemmSize{1, 50, 1}, sim::GemmSize{50, 1, 1},
               sim::GemmSize{3, 2, 1}, sim::GemmSize{1, 64, 200}, sim::GemmSize{64, 1, 200});
  const sim::GemmSize tile = GENERATE(sim::GemmSize{0, 0, 0}, sim::GemmSize{2, 16, 64});
  Topology topology = round_topology();
  topology.pe.gemm.rows = topology.pe.gemm.columns = 32;
  CompositeUnderTest gemm(size, DType::f16, DType::f32, topology);
  gemm.run(tile);
  CHECK(gemm.c.to_vector() == gemm.expected());
}

TEST_CASE("a product larger than scratch is tiled to fit it", "[tl][composite]") {
  Topology topology = round_topology();
  topology.pe.tcm.capacity = 8192;
  CompositeUnderTest gemm({100, 120, 90}, DType::f16, DType::f32, topology);
  gemm.run();
  CHECK(gemm.c.to_vector() == gemm.expected());
  CHECK(simulation_of(gemm.torch).machine().pe({0, 0, 0}).scratch_in_use() == 0);
}

// Computes the same as a kernel would with tl.load, tl.dot, PE_MATH and tl.store.
void loop_over_tiles(tl::Context& tl, const tl::CompositeGemm& gemm) {
  const DType in = gemm.a.dtype();
  for (std::int64_t row = 0; row < gemm.m; row += gemm.tile_m) {
    const std::int64_t m = std::min(gemm.tile_m, gemm.m - row);
    for (std::int64_t column = 0; column < gemm.n; column += gemm.tile_n) {
      const std::int64_t n = std::min(gemm.tile_n, gemm.n - column);
      std::optional<tl::Tensor> sum;
      for (std::int64_t depth = 0; depth < gemm.k; depth += gemm.tile_k) {
        const std::int64_t k = std::min(gemm.tile_k, gemm.k - depth);
        const tl::Tensor a = tl.load(gemm.a + (row * gemm.k + depth), {m, k}, in, gemm.k);
        const tl::Tensor b = tl.load(gemm.b + (depth * gemm.n + column), {k, n}, in, gemm.n);
        sum = sum ? tl.dot(a, b, *std::exchange(sum, std::nullopt)) : tl.dot(a, b);
      }
      const tl::Tensor bias = tl.cast(tl.load(*gemm.bias + column, {n}, in), DType::f32);
      const tl::Tensor x = *sum * gemm.scale + bias;
      const tl::Tensor y = x * tl.sigmoid(x);  // silu
      tl.store(gemm.c + (row * gemm.n + column), tl.cast(y, gemm.c.dtype()), gemm.n);
    }
  }
}

TEST_CASE("composite equals a loop over its tiles, bit for bit", "[tl][composite]") {
  const DType in = GENERATE(DType::f16, DType::bf16, DType::f32);
  const DType out = GENERATE(DType::f16, DType::f32);
  CompositeUnderTest dut({37, 41, 203}, in, out);
  dut.set_operands(reals(37 * 203, 1), reals(203 * 41, 2));
  const Tensor bias = dut.matrix({41}, in, "bias", reals(41, 3));
  const auto complete = [&](tl::CompositeGemm& gemm) {
    set_tiles(gemm, {16, 24, 50});
    gemm.scale = 0.3;
    gemm.bias = dut.pointer_to(bias);
    gemm.activation = tl::Activation::silu;
  };
  dut.run(complete);
  const Floats composite = dut.c.to_vector();
  dut.torch.launch(
      "loop",
      [&](tl::Context& tl, tl::Pointer a, tl::Pointer b, tl::Pointer c) {
        tl::CompositeGemm gemm = composite_of(a, b, c, {37, 41, 203});
        complete(gemm);
        loop_over_tiles(tl, gemm);
      },
      dut.a, dut.b, dut.c);
  CHECK(dut.c.to_vector() == composite);
  const auto is_real = [](float x) { return x != std::round(x); };
  CHECK(std::ranges::count_if(composite, is_real) > 1000);
}

TEST_CASE("operands may be parts of wider matrices, and the rest of c stays", "[tl][composite]") {
  CompositeUnderTest whole({12, 15, 18});
  // Rows 2 to 7, columns 3 to 9 of c, with depths 4 to 14.
  whole.run([](tl::CompositeGemm& gemm) {
    gemm.a = gemm.a + (2 * 18 + 4);
    gemm.b = gemm.b + (4 * 15 + 3);
    gemm.c = gemm.c + (2 * 15 + 3);
    gemm.m = 6;
    gemm.n = 7;
    gemm.k = 11;
    gemm.a_pitch = 18;
    gemm.b_pitch = gemm.c_pitch = 15;
    set_tiles(gemm, {4, 5, 6});
  });
  const Floats c = whole.c.to_vector();
  for (std::int64_t row = 0; row < 12; ++row) {
    for (std::int64_t column = 0; column < 15; ++column) {
      float sum = 0;
      const bool is_inside = row >= 2 && row < 8 && column >= 3 && column < 10;
      for (std::int64_t i = 4; is_inside && i < 15; ++i) {
        sum += whole.a_elements[index_of(row, 18, i)] * whole.b_elements[index_of(i, 15, column)];
      }
      REQUIRE(c[index_of(row, 15, column)] == sum);
    }
  }
}

TEST_CASE("the epilogue is activation(scale (a b) + bias), with one rounding", "[tl][composite]") {
  const DType out = GENERATE(DType::f16, DType::bf16, DType::f32);
  const tl::Activation activation = GENERATE(from_range(sim::kActivations));
  const bool has_bias = GENERATE(false, true);
  CompositeUnderTest gemm({9, 20, 10}, DType::f16, out);
  const Floats bias_elements = small_integers(20, 3);
  const Tensor bias = gemm.matrix({20}, DType::f16, "bias", bias_elements);
  gemm.run([&](tl::CompositeGemm& composite) {
    set_tiles(composite, {4, 8, 4});
    composite.scale = 0.25;
    composite.activation = activation;
    composite.out_dtype = out;
    if (has_bias) composite.bias = gemm.pointer_to(bias);
  });
  const Floats c = gemm.c.to_vector();
  const std::vector<double> sums = product_of(gemm.size, gemm.a_elements, gemm.b_elements);
  // The exact value's rounding, beside the errors of up to seven operations in f32.
  const double u = out == DType::f32 ? 0x1p-24 : out == DType::f16 ? 0x1p-11 : 0x1p-8;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const double x = 0.25 * sums[i] + (has_bias ? static_cast<double>(bias_elements[i % 20]) : 0.0);
    const double exact = reference(activation, x);
    const double bound = u * std::abs(exact) + 16 * 0x1p-24 * std::max(1.0, std::abs(x)) + 0x1p-25;
    REQUIRE(std::abs(static_cast<double>(c[i]) - exact) <= bound);
    if (activation == tl::Activation::none || activation == tl::Activation::relu) {
      REQUIRE(std::abs(static_cast<double>(c[i]) - exact) <= u * std::abs(exact));
    }
  }
}

TEST_CASE("scratch, traffic and the log of a composite are those of its tiles", "[tl][composite]") {
  CompositeUnderTest gemm({50, 70, 30}, DType::f16, DType::bf16);
  gemm.run(sim::GemmSize{16, 32, 8});
  const EngineView engine = gemm.torch.engine();
  const std::int64_t loaded = 50 * 30 * 3 + 30 * 70 * 4;  // ceil(70 / 32), ceil(50 / 16)
  CHECK(engine.hbm_bytes_loaded() == 2 * loaded);
  CHECK(engine.hbm_bytes_stored() == 2 * 50 * 70);
  std::array<Bytes, sim::kOpKindCount> bytes{};
  std::array<std::int64_t, sim::kOpKindCount> counts{};
  for (const sim::OpRecord& op : gemm.log()) {
    bytes.at(static_cast<std::size_t>(op.kind)) += op.bytes;
    counts.at(static_cast<std::size_t>(op.kind)) += op.element_count;
  }
  const auto of = [](const auto& all, sim::OpKind kind) {
    return all.at(static_cast<std::size_t>(kind));
  };
  CHECK(of(bytes, sim::OpKind::load) == 2 * loaded);
  CHECK(of(bytes, sim::OpKind::store) == 2 * 50 * 70);
  CHECK(of(bytes, sim::OpKind::composite) == 2 * loaded + 2 * 50 * 70);
  CHECK(of(counts, sim::OpKind::gemm) == 50 * 70 * 30);
  CHECK(of(counts, sim::OpKind::composite) == 50 * 70 * 30);
  CHECK(gemm.log().count(sim::OpKind::composite) == 1);
  CHECK(gemm.log().count(sim::OpKind::gemm) == 4 * 3 * 4);
  CHECK(gemm.log().count(sim::OpKind::store) == 4 * 3);
  CHECK(gemm.log().count(sim::OpKind::math) == 0);
}

TEST_CASE("what is loaded after a composite is what it stored, and before it what was there",
          "[tl][composite]") {
  CompositeUnderTest gemm({16, 16, 16}, DType::f32);
  const Tensor before = gemm.matrix({16, 16}, DType::f32, "before", Floats(256));
  const Tensor after = gemm.matrix({16, 16}, DType::f32, "after", Floats(256));
  gemm.torch.launch(
      "chain",
      [&](tl::Context& tl, tl::Pointer a, tl::Pointer b, tl::Pointer c, tl::Pointer old,
          tl::Pointer next) {
        tl.store(old, tl.load(c, {256}, DType::f32));
        tl.store(a, tl.load(b, {256}, DType::f32));  // a becomes b
        tl.composite(composite_of(a, b, c, gemm.size, {8, 4, 8}));
        tl.composite(composite_of(c, b, next, gemm.size, {8, 4, 8}));
        tl.store(c, tl.load(old, {256}, DType::f32));
      },
      gemm.a, gemm.b, gemm.c, before, after);
  const std::vector<double> square = product_of(gemm.size, gemm.b_elements, gemm.b_elements);
  const std::vector<double> cube =
      product_of(gemm.size, Floats(square.begin(), square.end()), gemm.b_elements);
  CHECK(after.to_vector() == Floats(cube.begin(), cube.end()));
  CHECK(gemm.c.to_vector() == Floats(256, 0));
  CHECK(before.to_vector() == Floats(256, 0));
}

TEST_CASE("every PE has its own part of the work", "[tl][composite]") {
  RuntimeContext torch(round_topology());
  const DPPolicy rows{.cube = Shard::replicate, .pe = Shard::row_wise, .num_cubes = 1};
  const DPPolicy copies{.cube = Shard::replicate, .pe = Shard::replicate, .num_cubes = 1};
  const Floats a_elements = small_integers(40 * 24, 1);
  const Floats b_elements = small_integers(24 * 30, 2);
  Tensor a = torch.empty({40, 24}, {.dtype = DType::f16, .dp = rows});
  Tensor b = torch.empty({24, 30}, {.dtype = DType::f16, .dp = copies});
  const Tensor c = torch.empty({40, 30}, {.dtype = DType::f32, .dp = rows});
  a.copy_(RuntimeContext::tensor(a_elements, {40, 24}));
  b.copy_(RuntimeContext::tensor(b_elements, {24, 30}));
  torch.launch(
      "gemm",
      [](tl::Context& tl, tl::Pointer pa, tl::Pointer pb, tl::Pointer pc) {
        tl.composite({.a = pa, .b = pb, .c = pc, .m = 20, .n = 30, .k = 24, .tile_n = 16});
      },
      a, b, c);
  const std::vector<double> exact = product_of({40, 30, 24}, a_elements, b_elements);
  CHECK(c.to_vector() == Floats(exact.begin(), exact.end()));
  CHECK(torch.engine().last_results().size() == 2);
  CHECK(torch.engine().hbm_bytes_stored() == 40 * 30 * 4);
}

tl::Pointer at(const Tensor& tensor, int cube) {
  return RuntimeContext::pointer_to(tensor, {0, cube, 0});
}

// Two PEs of each of two cubes; a lies on the cubes in blocks of 20 rows, and b in blocks of 12.
// Each PE computes 20 rows and 15 columns, in tiles that do not end where blocks do.
TEST_CASE("operands may lie in blocks on several PEs, and PEs may share them", "[tl][composite]") {
  const bool shares = GENERATE(false, true);
  const bool is_one_list = GENERATE(false, true);  // of blocks, for all PEs
  const sim::GemmSize tile = GENERATE(sim::GemmSize{20, 15, 24}, sim::GemmSize{7, 4, 5});
  RuntimeContext torch(small_topology());
  const DPPolicy blocks{.cube = Shard::row_wise, .pe = Shard::replicate, .num_pes = 1};
  const Floats a_elements = small_integers(40 * 24, 1);
  const Floats b_elements = small_integers(24 * 30, 2);
  Tensor a = torch.empty({40, 24}, {.dtype = DType::f16, .dp = blocks});
  Tensor b = torch.empty({24, 30}, {.dtype = DType::f16, .dp = blocks});
  const Tensor c = torch.empty(
      {40, 30}, {.dtype = DType::f32, .dp = {.cube = Shard::row_wise, .pe = Shard::column_wise}});
  a.copy_(RuntimeContext::tensor(a_elements, {40, 24}));
  b.copy_(RuntimeContext::tensor(b_elements, {24, 30}));
  const tl::FurtherBlocks of_all = {{12, at(b, 1)}};
  torch.launch(
      "gemm",
      [&](tl::Context& tl, tl::Pointer pc) {
        const std::int64_t column = 15 * tl.pe_id();
        tl::CompositeGemm gemm =
            composite_of(at(a, tl.cube_id()), at(b, 0) + column, pc, {20, 15, 24}, tile);
        gemm.b_pitch = 30;
        gemm.b_further = is_one_list ? of_all + column : tl::FurtherBlocks{{12, at(b, 1) + column}};
        if (shares) {
          gemm.a_readers = {.in_cube = 2, .in_launch = 2};
          gemm.b_readers = {.in_cube = 1, .in_launch = 2};
        }
        tl.composite(gemm);
      },
      c);
  const std::vector<double> exact = product_of({40, 30, 24}, a_elements, b_elements);
  CHECK(c.to_vector() == Floats(exact.begin(), exact.end()));
}

// a, b and c lie on two cubes in blocks of half of their rows in memory.  Each PE of those computes
// the columns of its own.
TEST_CASE("matrices in blocks may be transposed, and the result lie in blocks", "[tl][composite]") {
  const bool transpose_a = GENERATE(false, true);
  const bool transpose_b = GENERATE(false, true);
  const bool shares = GENERATE(false, true);
  const sim::GemmSize tile = GENERATE(sim::GemmSize{40, 8, 24}, sim::GemmSize{7, 5, 9});
  RuntimeContext torch(small_topology());
  const auto in_blocks = [&](const Shape& shape, DType dtype, const Floats& elements) {
    Tensor made = torch.empty(
        shape,
        {.dtype = dtype, .dp = {.cube = Shard::row_wise, .pe = Shard::replicate, .num_pes = 1}});
    made.copy_(RuntimeContext::tensor(elements, shape));
    return made;
  };
  const auto turned = [](const Floats& elements, std::int64_t rows, std::int64_t columns) {
    Floats result;
    for (std::int64_t i = 0; i < columns; ++i) {
      for (std::int64_t j = 0; j < rows; ++j) {
        result.push_back(elements[static_cast<std::size_t>(j * columns + i)]);
      }
    }
    return result;
  };
  const Floats of_a = small_integers(40 * 24, 1);
  const Floats of_b = small_integers(24 * 32, 2);
  const Tensor a = transpose_a ? in_blocks({24, 40}, DType::f16, turned(of_a, 40, 24))
                               : in_blocks({40, 24}, DType::f16, of_a);
  const Tensor b = transpose_b ? in_blocks({32, 24}, DType::f16, turned(of_b, 24, 32))
                               : in_blocks({24, 32}, DType::f16, of_b);
  const Tensor c = in_blocks({40, 32}, DType::f32, Floats(40 * 32, 7));
  const Tensor on_all = torch.zeros({4}, {});
  torch.launch(
      "gemm",
      [&](tl::Context& tl, tl::Pointer) {
        const std::int64_t column = 8 * (2 * tl.cube_id() + tl.pe_id());
        const std::int64_t in_b = transpose_b ? 0 : column;
        tl::CompositeGemm gemm =
            composite_of(at(a, 0), at(b, 0) + in_b, at(c, 0) + column, {40, 8, 24}, tile);
        gemm.a_further = {{transpose_a ? 12 : 20, at(a, 1)}};
        gemm.b_further = {{12, at(b, 1) + in_b}};
        if (transpose_b) {  // its rows are columns of c: 16 lie on each cube
          gemm.b = at(b, static_cast<int>(column / 16)) + column % 16 * 24;
          gemm.b_further = {};
        }
        gemm.c_further = {{20, at(c, 1) + column}};
        gemm.a_pitch = transpose_a ? 40 : 24;
        gemm.b_pitch = transpose_b ? 24 : 32;
        gemm.c_pitch = 32;
        gemm.transpose_a = transpose_a;
        gemm.transpose_b = transpose_b;
        if (shares) gemm.a_readers = {.in_cube = 2, .in_launch = 4};
        tl.composite(gemm);
      },
      on_all);
  const std::vector<double> exact = product_of({40, 32, 24}, of_a, of_b);
  CHECK(c.to_vector() == Floats(exact.begin(), exact.end()));
}

TEST_CASE("the same composite twice has the same fingerprint, and bits on any number of threads",
          "[tl][composite][determinism]") {
  std::vector<Floats> results;
  std::vector<std::uint64_t> fingerprints;
  for (const int threads : {1, 1, 3}) {
    CompositeUnderTest gemm({300, 280, 260}, DType::f16, DType::f16, round_topology(),
                            {.evaluation_threads = threads});
    gemm.run([](tl::CompositeGemm& composite) {
      set_tiles(composite, {64, 96, 80});
      composite.activation = tl::Activation::gelu;
      composite.scale = 0.01;
    });
    results.push_back(gemm.c.to_vector());
    fingerprints.push_back(gemm.torch.engine().fingerprint());
  }
  CHECK(results[1] == results[0]);
  CHECK(results[2] == results[0]);
  CHECK(fingerprints[1] == fingerprints[0]);
  CHECK(fingerprints[2] == fingerprints[0]);
}

}  // namespace
}  // namespace kernbench::test::composite_test
