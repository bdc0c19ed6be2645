#include "sim_engine/data/gemm_product.h"

#include <Eigen/Core>
#include <algorithm>
#include <span>

#include "sim_engine/data/element_format.h"

namespace kernbench::sim {

namespace {

// Measured: of blocks from 128 to 512 these lose least to Eigen's product of whole matrices.
constexpr std::int64_t kPartRows = 256;
constexpr std::int64_t kPartColumns = 256;
constexpr std::int64_t kDepth = 512;

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Matrix = Eigen::Map<RowMajor, Eigen::Aligned64, Eigen::OuterStride<>>;

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// A rectangle of a matrix, as f32; every row begins at a cache line.
struct Block {
  float* floats;
  std::int64_t rows;
  std::int64_t columns;

  std::int64_t pitch() const { return pitch_of(columns); }
  std::span<float> row(std::int64_t index) const {
    return {floats + index * pitch(), static_cast<std::size_t>(columns)};
  }
  Matrix matrix() const { return {floats, rows, columns, Eigen::OuterStride<>(pitch())}; }

  static std::int64_t pitch_of(std::int64_t columns) {
    return ceil_divide(columns, GemmWorkspace::kLineFloats) * GemmWorkspace::kLineFloats;
  }
};

Block make_block(GemmWorkspace& workspace, std::size_t which, std::int64_t rows,
                 std::int64_t columns) {
  return {workspace.block(which, rows * Block::pitch_of(columns)), rows, columns};
}

// The rectangle of `block`'s size at (row, column) of a matrix of `width` columns.
void fill(const Block& block, const ElementSource& source, std::int64_t width, std::int64_t row,
          std::int64_t column) {
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const std::span<float> to = block.row(i);
    if (source.data == nullptr) {
      std::ranges::fill(to, source.scalar);
    } else {
      const std::int64_t first = (row + i) * width + column;
      decode(source.dtype, source.data + first * size_of(source.dtype), to);
    }
  }
}

}  // namespace

float* GemmWorkspace::block(std::size_t which, std::int64_t floats) {
  std::vector<Line>& lines = blocks_[which];
  const auto needed = static_cast<std::size_t>(ceil_divide(floats, kLineFloats));
  if (lines.size() < needed) lines.resize(needed);
  return lines.front().floats.data();
}

std::int64_t gemm_part_count(const GemmSize& size) {
  return ceil_divide(size.m, kPartRows) * ceil_divide(size.n, kPartColumns);
}

void compute_gemm_part(const GemmProduct& product, std::int64_t part, GemmWorkspace& workspace) {
  const auto& [m, n, k] = product.size;
  const std::int64_t across = ceil_divide(n, kPartColumns);
  const std::int64_t row = part / across * kPartRows;
  const std::int64_t column = part % across * kPartColumns;
  const std::int64_t rows = std::min(kPartRows, m - row);
  const std::int64_t columns = std::min(kPartColumns, n - column);

  const Block sum = make_block(workspace, 2, rows, columns);
  fill(sum, product.accumulator, n, row, column);
  for (std::int64_t first = 0; first < k; first += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - first);
    const Block a = make_block(workspace, 0, rows, depth);
    const Block b = make_block(workspace, 1, depth, columns);
    fill(a, product.a, k, row, first);
    fill(b, product.b, n, first, column);
    sum.matrix().noalias() += a.matrix() * b.matrix();
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t first = (row + i) * n + column;
    encode(product.dtype, sum.row(i), product.target + first * size_of(product.dtype));
  }
}

}  // namespace kernbench::sim
