// tl.dot

#include <catch2/catch.hpp>

#include "test/runtime/tl/pair_under_test.h"
#include "test/runtime/tl/tl_under_test.h"

namespace kernbench::test::dot_test {
namespace {

using Floats = std::vector<float>;

const TensorOptions kOnePe{.dp = DPPolicy::on_one_pe()};

Tensor matrix(const RuntimeContext& torch, DType dtype, const Shape& shape, const Floats& elements,
              const std::string& name = "") {
  TensorOptions options = kOnePe;
  options.dtype = dtype;
  options.name = name;
  Tensor tensor = torch.empty(shape, options);
  tensor.copy_(RuntimeContext::tensor(elements, shape));
  return tensor;
}

// i -> i mod 5 - 2
Floats pattern(std::int64_t count) {
  Floats elements;
  for (std::int64_t i = 0; i < count; ++i) elements.push_back(static_cast<float>(i % 5 - 2));
  return elements;
}

Floats product(std::int64_t m, std::int64_t n, std::int64_t k, const Floats& a, const Floats& b) {
  Floats c;
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      int sum = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        sum += static_cast<int>(a[static_cast<std::size_t>(row * k + i)]) *
               static_cast<int>(b[static_cast<std::size_t>(i * n + column)]);
      }
      c.push_back(static_cast<float>(sum));
    }
  }
  return c;
}

TEST_CASE("dot is the product of two matrices, in f32", "[tl][gemm]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  RuntimeContext torch(round_topology());
  const auto [m, n, k] = GENERATE(sim::GemmSize{8, 4, 16}, sim::GemmSize{1, 1, 1},
                                  sim::GemmSize{33, 7, 1}, sim::GemmSize{1, 5, 64});
  const Tensor a = matrix(torch, dtype, {m, k}, pattern(m * k));
  const Tensor b = matrix(torch, dtype, {k, n}, pattern(k * n));
  const Tensor c = torch.empty({m, n}, kOnePe);
  torch.launch(
      "gemm",
      [&](tl::Context& tl, tl::Pointer pa, tl::Pointer pb, tl::Pointer pc) {
        const tl::Tensor result = tl.dot(tl.load(pa, {m, k}, dtype), tl.load(pb, {k, n}, dtype));
        CHECK(result.dtype() == DType::f32);
        CHECK(result.shape() == Shape{m, n});
        tl.store(pc, result);
      },
      a, b, c);
  CHECK(c.to_vector() == product(m, n, k, pattern(m * k), pattern(k * n)));
}

TEST_CASE("a loop over k tiles accumulates, in one accumulator's scratch", "[tl][gemm]") {
  Topology topology = round_topology();
  topology.pe.tcm.capacity = 64 * 16 * 4 + 64 * 32 * 2 + 32 * 16 * 2;  // one sum, one pair of tiles
  RuntimeContext torch(topology);
  constexpr std::int64_t kTiles = 6;
  const Tensor a = matrix(torch, DType::f16, {kTiles, 64, 32}, pattern(kTiles * 64 * 32));
  const Tensor b = matrix(torch, DType::f16, {kTiles * 32, 16}, pattern(kTiles * 32 * 16));
  const Tensor c = torch.empty({64, 16}, kOnePe);
  torch.launch(
      "gemm",
      [&](tl::Context& tl, tl::Pointer pa, tl::Pointer pb, tl::Pointer pc) {
        tl::Tensor sum =
            tl.dot(tl.load(pa, {64, 32}, DType::f16), tl.load(pb, {32, 16}, DType::f16));
        for (std::int64_t i = 1; i < kTiles; ++i) {
          sum = tl.dot(tl.load(pa + i * 64 * 32, {64, 32}, DType::f16),
                       tl.load(pb + i * 32 * 16, {32, 16}, DType::f16), std::move(sum));
        }
        tl.store(pc, sum);
      },
      a, b, c);
  Floats expected(64 * 16, 0);
  const Floats all_a = pattern(kTiles * 64 * 32);
  const Floats all_b = pattern(kTiles * 32 * 16);
  for (std::int64_t i = 0; i < kTiles; ++i) {
    const Floats part = product(64, 16, 32, {all_a.begin() + i * 2048, all_a.end()},
                                {all_b.begin() + i * 512, all_b.end()});
    for (std::size_t j = 0; j < part.size(); ++j) expected[j] += part[j];
  }
  CHECK(c.to_vector() == expected);
}

TEST_CASE("an accumulator that is kept stays what it was", "[tl][gemm]") {
  RuntimeContext torch(round_topology());
  const Tensor x = matrix(torch, DType::f32, {3, 2, 2}, {1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0});
  torch.launch(
      "gemm",
      [&](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor a = tl.load(p, {2, 2}, DType::f32);
        const tl::Tensor square = tl.dot(a, a);
        tl.store(p + 4, tl.dot(a, a, square));
        tl.store(p + 8, square);
      },
      x);
  CHECK(x.to_vector() == Floats{1, 2, 3, 4, 14, 20, 30, 44, 7, 10, 15, 22});
}

TEST_CASE("out_dtype rounds the f32 sum once", "[tl][gemm]") {
  RuntimeContext torch(round_topology());
  const Tensor x = matrix(torch, DType::f16, {4}, {2048, 1, 1, 1});
  const Tensor y = matrix(torch, DType::f16, {2}, {0, 0});
  torch.launch(
      "gemm",
      [&](tl::Context& tl, tl::Pointer px, tl::Pointer py) {
        const tl::Tensor row = tl.load(px, {1, 3}, DType::f16);
        const tl::Tensor ones = tl.load(px + 1, {3, 1}, DType::f16);
        const tl::Tensor first =
            tl.dot(tl.load(px, {1, 1}, DType::f16), tl.load(px + 1, {1, 1}, DType::f16));
        tl.store(py, tl.dot(tl.load(px + 1, {1, 2}, DType::f16),
                            tl.load(px + 2, {2, 1}, DType::f16), first, {.out_dtype = DType::f16}));
        CHECK(
            tl.dot(row, tl.load(px + 1, {3, 1}, DType::f16), {.out_dtype = DType::bf16}).dtype() ==
            DType::bf16);
      },
      x, y);
  CHECK(y.to_vector()[0] == 2050);  // rounded after each addition it would be 2048
}

TEST_CASE("dot takes the array's time at its clock", "[tl][gemm][timing]") {
  Topology topology = round_topology();
  topology.pe.gemm = {.rows = 8, .columns = 8, .clock = Frequency{1'000'000'000}};
  topology.pe.gemm.dataflow = GENERATE(Dataflow::output_stationary, Dataflow::weight_stationary,
                                       Dataflow::input_stationary);
  PairUnderTest pair({}, topology);
  Time took{0};
  pair.run(
      [&](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor a = tl.load(p, {40, 24}, DType::f32);
        const tl::Tensor b = tl.load(p, {24, 16}, DType::f32);
        tl.drain();
        const Time begin = pair.now();
        const tl::Tensor c = tl.dot(a, b);
        tl.drain();
        took = pair.now() - begin;
      },
      [](tl::Context&, tl::Pointer) {});
  switch (topology.pe.gemm.dataflow) {
    case Dataflow::output_stationary:
      CHECK(took == Time{5 * 2 * (24 + 14) * 1000});
      break;
    case Dataflow::weight_stationary:
      CHECK(took == Time{3 * 2 * (40 + 22) * 1000});
      break;
    case Dataflow::input_stationary:
      CHECK(took == Time{3 * 5 * (16 + 22) * 1000});
      break;
  }
}

TEST_CASE("a loop hides its loads behind the array, all but the first", "[tl][gemm][timing]") {
  // A pair of tiles takes 53 ns and 2 * 1000 B / 20 GB/s = 100 ns; a GEMM [10, 25] x [25, 10] on
  // 2 x 2: 25 folds of 27 cycles.
  Topology topology = round_topology();
  topology.pe.gemm = {.rows = 2, .columns = 2, .clock = Frequency{1'000'000'000}};
  PairUnderTest pair({}, topology);
  Time took{0};
  pair.run(
      [&](tl::Context& tl, tl::Pointer p) {
        const Time begin = pair.now();
        std::vector<tl::Tensor> kept;
        for (int i = 0; i < 4; ++i) {
          const tl::Tensor a = tl.load(p + i * 500, {10, 25}, DType::f32);
          const tl::Tensor b = tl.load(p + i * 500 + 250, {25, 10}, DType::f32);
          kept.push_back(tl.dot(a, b));
        }
        tl.drain();
        took = pair.now() - begin;
      },
      [](tl::Context&, tl::Pointer) {});
  CHECK(took == Time{(53 + 100 + 4 * 25 * 27) * 1000});
}

TEST_CASE("shapes and types that do not fit are refused, and the text says which",
          "[tl][gemm][error]") {
  TlUnderTest k;
  const tl::Pointer p = k.input(Floats(32, 1));
  const auto check = [&](const Says& expected, const auto& body) {
    CHECK_THAT(k.error([&](tl::Context& tl) {
      body(tl, tl.load(p, {2, 2}, DType::f32));
    }),
               expected);
  };
  const std::string where = "tl.dot in kernel 'k' on sip0.cube0.pe0";
  check(Says("KB-K030", where, "[4, 8] f32 and [4, 8] f32"), [&](auto& tl, const auto&) {
    tl.dot(tl.load(p, {4, 8}, DType::f32), tl.load(p, {4, 8}, DType::f32));
  });
  check(Says("KB-K030", where, "[8] f32 and [8, 1] f32"), [&](auto& tl, const auto&) {
    tl.dot(tl.load(p, {8}, DType::f32), tl.load(p, {8, 1}, DType::f32));
  });
  check(Says("KB-K030", where, "accumulator is [4] f32", "must be [2, 2] f32"),
        [&](auto& tl, const auto& a) { tl.dot(a, a, tl.load(p, {4}, DType::f32)); });
  check(Says("KB-K030", where, "accumulator is [2, 2] f16", "must be [2, 2] f32"),
        [&](auto& tl, const auto& a) { tl.dot(a, a, tl.dot(a, a, {.out_dtype = DType::f16})); });
  check(Says("KB-K031", where, "[2, 2] f32 and [2, 2] f16"),
        [&](auto& tl, const auto& a) { tl.dot(a, tl.dot(a, a, {.out_dtype = DType::f16})); });
}

TEST_CASE("a product that does not fit scratch is refused", "[tl][gemm][error]") {
  PairUnderTest pair;
  const std::string text = pair.device_error_of([](tl::Context& tl, tl::Pointer p) {
    tl.dot(tl.load(p, {2000, 1}, DType::f32), tl.load(p, {1, 2000}, DType::f32));
  });
  CHECK_THAT(text, Says("KB-M010", "tl.dot in kernel 'pair' on sip0.cube0.pe0", "16000000 B"));
}

TEST_CASE("an operand that came from HBM is what was there when it was loaded", "[tl][gemm]") {
  RuntimeContext torch(round_topology());
  const Tensor x = matrix(torch, DType::f16, {2, 2}, {1, 2, 3, 4});
  const Tensor y = torch.zeros({2, 2}, kOnePe);
  torch.launch(
      "gemm",
      [&](tl::Context& tl, tl::Pointer px, tl::Pointer py) {
        const tl::Tensor before = tl.load(px, {2, 2}, DType::f16);
        tl.store(px, before + before);  // the same addresses, another version
        const tl::Tensor after = tl.load(px, {2, 2}, DType::f16);
        tl.store(py, tl.dot(before, after));
      },
      x, y);
  CHECK(y.to_vector() == Floats{14, 20, 30, 44});
}

TEST_CASE("an accumulator that was loaded gives its scratch to the result", "[tl][gemm]") {
  const bool is_there = GENERATE(false, true);  // before the product is issued
  Topology topology = round_topology();
  topology.pe.tcm.capacity = 16 * 16 * 4 + 2 * 16 * 16 * 2;  // one sum, one pair of tiles
  RuntimeContext torch(topology);
  const Tensor a = matrix(torch, DType::f16, {16, 16}, pattern(256));
  const Tensor c = matrix(torch, DType::f32, {16, 16}, pattern(256));
  torch.launch(
      "gemm",
      [&](tl::Context& tl, tl::Pointer pa, tl::Pointer pc) {
        tl::Tensor sum = tl.load(pc, {16, 16}, DType::f32);
        const tl::Tensor left = tl.load(pa, {16, 16}, DType::f16);
        const tl::Tensor right = tl.load(pa, {16, 16}, DType::f16);
        if (is_there) tl.drain();
        sum = tl.dot(left, right, std::move(sum));
        tl.store(pc, sum);
      },
      a, c);
  Floats expected = product(16, 16, 16, pattern(256), pattern(256));
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += pattern(256)[i];
  CHECK(c.to_vector() == expected);
}

TEST_CASE("an accumulator that is still stored is replaced when that is done", "[tl][gemm]") {
  Topology topology = round_topology();
  topology.pe.tcm.capacity = 16 * 16 * 4 + 2 * 16 * 16 * 2;
  RuntimeContext torch(topology);
  const Tensor a = matrix(torch, DType::f16, {16, 16}, pattern(256));
  const Tensor c = torch.zeros({2, 16, 16}, kOnePe);
  torch.launch(
      "gemm",
      [&](tl::Context& tl, tl::Pointer pa, tl::Pointer pc) {
        const tl::Tensor left = tl.load(pa, {16, 16}, DType::f16);
        const tl::Tensor right = tl.load(pa, {16, 16}, DType::f16);
        tl::Tensor sum = tl.dot(left, right);
        tl.store(pc, sum);
        sum = tl.dot(left, right, std::move(sum));
        tl.store(pc + 256, sum);
      },
      a, c);
  Floats expected = product(16, 16, 16, pattern(256), pattern(256));
  for (std::size_t i = 0; i < 256; ++i) expected.push_back(2 * expected[i]);
  CHECK(c.to_vector() == expected);
}

TEST_CASE("tiles that are chosen fit the scratch that is given", "[tl][dot]") {
  TlUnderTest k;
  const tl::Pointer a = k.input({1});
  k.run([&](tl::Context& tl) {
    for (const Bytes scratch : {Bytes{100'000}, Bytes{10'000}, Bytes{24}}) {
      const auto [m, n, depth] = tl.choose_tile(a, a, a, {500, 400, 300}, scratch);
      CHECK(2 * 4 * (m * depth + depth * n + m * n) <= scratch);
    }
    CHECK(tl.choose_tile(a, a, a, {5, 6, 7}, 1 << 20) == sim::GemmSize{5, 6, 7});
    CHECK(tl.choose_tile(a, a, a, {5, 6, 7}, 0) == sim::GemmSize{1, 1, 1});
    CHECK(tl.choose_tile(a, a, a, {0, 6, 0}, 1 << 20) == sim::GemmSize{1, 6, 1});
  });
}

}  // namespace
}  // namespace kernbench::test::dot_test
