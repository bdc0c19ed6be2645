// Matrices on one PE for tl.composite, and plain loops to compare with.

#pragma once

#include <functional>
#include <string>

#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

using Floats = std::vector<float>;

inline std::size_t index_of(std::int64_t row, std::int64_t columns, std::int64_t column) {
  return static_cast<std::size_t>(row * columns + column);
}

// Small integers, different for each seed.
inline Floats small_integers(std::int64_t count, unsigned seed) {
  Floats elements;
  unsigned state = seed * 2654435761u + 1;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    elements.push_back(static_cast<float>(static_cast<int>(state >> 24) % 7 - 3));
  }
  return elements;
}

// Numbers in (-1, 1), different for each seed.
inline Floats reals(std::int64_t count, unsigned seed) {
  Floats elements;
  unsigned state = seed * 2654435761u + 1;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    elements.push_back(static_cast<float>(static_cast<int>(state >> 8) - (1 << 23)) * 0x1p-23F);
  }
  return elements;
}

// The sums of products, in double: exact for integers.
inline std::vector<double> product_of(const sim::GemmSize& size, const Floats& a, const Floats& b) {
  std::vector<double> c;
  for (std::int64_t row = 0; row < size.m; ++row) {
    for (std::int64_t column = 0; column < size.n; ++column) {
      double sum = 0;
      for (std::int64_t i = 0; i < size.k; ++i) {
        sum += static_cast<double>(a[index_of(row, size.k, i)]) *
               static_cast<double>(b[index_of(i, size.n, column)]);
      }
      c.push_back(sum);
    }
  }
  return c;
}

// c = a b in these tiles; 0 where they are chosen.
inline tl::CompositeGemm composite_of(const tl::Pointer& a, const tl::Pointer& b,
                                      const tl::Pointer& c, const sim::GemmSize& size,
                                      const sim::GemmSize& tile = {0, 0, 0}) {
  tl::CompositeGemm gemm{.a = a, .b = b, .c = c, .m = size.m, .n = size.n, .k = size.k};
  gemm.tile_m = tile.m;
  gemm.tile_n = tile.n;
  gemm.tile_k = tile.k;
  return gemm;
}

// [m, k] x [k, n] of small integers on one PE.
struct CompositeUnderTest {
  explicit CompositeUnderTest(const sim::GemmSize& gemm_size, DType in = DType::f16,
                              DType out = DType::f32, const Topology& topology = round_topology(),
                              const RuntimeOptions& options = {})
      : size(gemm_size),
        torch(topology, options),
        a_elements(small_integers(size.m * size.k, 1)),
        b_elements(small_integers(size.k * size.n, 2)),
        a(matrix({size.m, size.k}, in, "a", a_elements)),
        b(matrix({size.k, size.n}, in, "b", b_elements)),
        c(matrix({size.m, size.n}, out, "c", Floats(static_cast<std::size_t>(size.m * size.n)))) {}

  Tensor matrix(const Shape& shape, DType dtype, const std::string& name, const Floats& elements) {
    Tensor tensor = torch.empty(shape, {.dtype = dtype, .dp = DPPolicy::on_one_pe(), .name = name});
    tensor.copy_(RuntimeContext::tensor(elements, shape));
    return tensor;
  }

  // Other elements for the operands, as they are once they are rounded to the type.
  void set_operands(const Floats& elements_of_a, const Floats& elements_of_b) {
    a.copy_(RuntimeContext::tensor(elements_of_a, a.shape()));
    b.copy_(RuntimeContext::tensor(elements_of_b, b.shape()));
    a_elements = a.to_vector();
    b_elements = b.to_vector();
  }

  // Runs one composite in these tiles.
  void run(const sim::GemmSize& tile) {
    run([&](tl::CompositeGemm& gemm) { gemm = composite_of(gemm.a, gemm.b, gemm.c, size, tile); });
  }
  // Runs one composite; `change` may set more of it.
  void run(const std::function<void(tl::CompositeGemm&)>& change = [](tl::CompositeGemm&) {}) {
    torch.launch(
        "gemm",
        [&](tl::Context& tl, tl::Pointer pa, tl::Pointer pb, tl::Pointer pc) {
          tl::CompositeGemm gemm = composite_of(pa, pb, pc, size);
          change(gemm);
          tl.composite(gemm);
        },
        a, b, c);
  }

  Floats expected() const {
    const std::vector<double> exact = product_of(size, a_elements, b_elements);
    return {exact.begin(), exact.end()};
  }
  tl::Pointer pointer_to(const Tensor& tensor) const {
    return RuntimeContext::pointer_to(tensor, {0, 0, 0});
  }
  const sim::CommandLog& log() const { return torch.engine().op_log(); }

  sim::GemmSize size;
  RuntimeContext torch;
  Floats a_elements;
  Floats b_elements;
  Tensor a;
  Tensor b;
  Tensor c;
};

}  // namespace kernbench::test
