// Attention by a formula, which one process computes of the whole, and ranks of their tokens.

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/context_parallel/context_parallel.h"
#include "test/parallel/data_parallel_world.h"

namespace kernbench::test {

namespace experimental = kernbench::experimental;
using experimental::TokenOrder;

struct AttentionSize {
  std::int64_t batch = 1;
  std::int64_t heads = 2;
  std::int64_t key_heads = 2;
  std::int64_t seq = 16;
  std::int64_t depth = 8;
  bool is_causal = true;

  Shape query() const { return {batch, heads, seq, depth}; }
  Shape key() const { return {batch, key_heads, seq, depth}; }
};

// ((i k + c) mod 61 - 30) / 64, which is exact in f32.
inline Floats by_formula(const Shape& shape, std::int64_t k, std::int64_t c) {
  Floats elements;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    elements.push_back(static_cast<float>((i * k + c) % 61 - 30) / 64);
  }
  return elements;
}

// Query, key, value, and the gradient of the output.
struct AttentionData {
  explicit AttentionData(const AttentionSize& size)
      : q(by_formula(size.query(), 37, 11)),
        k(by_formula(size.key(), 29, 5)),
        v(by_formula(size.key(), 43, 7)),
        dy(by_formula(size.query(), 17, 3)) {}

  Floats q;
  Floats k;
  Floats v;
  Floats dy;
};

// The output and the gradients, in double, of whole tensors.
struct WholeAttention {
  std::vector<double> y;
  std::vector<double> dq;
  std::vector<double> dk;
  std::vector<double> dv;
};

inline WholeAttention attend_whole(const AttentionSize& size, const AttentionData& data) {
  const auto count = [](const Shape& shape) { return static_cast<std::size_t>(shape.numel()); };
  WholeAttention whole{
      std::vector<double>(count(size.query())), std::vector<double>(count(size.query())),
      std::vector<double>(count(size.key())), std::vector<double>(count(size.key()))};
  const std::int64_t d = size.depth;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const auto dot = [&](const Floats& a, std::int64_t row, const Floats& b, std::int64_t other) {
    double sum = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      sum += static_cast<double>(a[static_cast<std::size_t>(row * d + i)]) *
             static_cast<double>(b[static_cast<std::size_t>(other * d + i)]);
    }
    return sum;
  };
  const auto add = [&](std::vector<double>& to, std::int64_t row, double by, const Floats& from,
                       std::int64_t other) {
    for (std::int64_t i = 0; i < d; ++i) {
      to[static_cast<std::size_t>(row * d + i)] +=
          by * static_cast<double>(from[static_cast<std::size_t>(other * d + i)]);
    }
  };
  for (std::int64_t row = 0; row < size.batch * size.heads * size.seq; ++row) {
    const std::int64_t head = row / size.seq % size.heads / (size.heads / size.key_heads);
    const std::int64_t first = (row / size.seq / size.heads * size.key_heads + head) * size.seq;
    const std::int64_t seen = size.is_causal ? row % size.seq + 1 : size.seq;
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t key = first; key < first + seen; ++key) {
      weights.push_back(std::exp(scale * dot(data.q, row, data.k, key)));
      sum += weights.back();
    }
    double along = 0;
    for (std::int64_t i = 0; i < seen; ++i) {
      weights[static_cast<std::size_t>(i)] /= sum;
      along += weights[static_cast<std::size_t>(i)] * dot(data.dy, row, data.v, first + i);
    }
    for (std::int64_t i = 0; i < seen; ++i) {
      const double weight = weights[static_cast<std::size_t>(i)];
      const double ds = scale * weight * (dot(data.dy, row, data.v, first + i) - along);
      add(whole.y, row, weight, data.v, first + i);
      add(whole.dv, first + i, weight, data.dy, row);
      add(whole.dq, row, ds, data.k, first + i);
      add(whole.dk, first + i, ds, data.q, row);
    }
  }
  return whole;
}

// The positions of a rank's tokens in a sequence, in their order.
inline std::vector<std::int64_t> positions_of(TokenOrder order, int ranks, int rank,
                                              std::int64_t seq) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < seq / ranks; ++i) {
    const std::int64_t chunk = seq / ranks / 2;
    switch (order) {
      case TokenOrder::contiguous:
        positions.push_back(rank * (seq / ranks) + i);
        break;
      case TokenOrder::striped:
        positions.push_back(i * ranks + rank);
        break;
      case TokenOrder::head_tail:
        positions.push_back(i < chunk ? rank * chunk + i
                                      : (2 * ranks - 1 - rank) * chunk + i - chunk);
        break;
    }
  }
  return positions;
}

}  // namespace kernbench::test
