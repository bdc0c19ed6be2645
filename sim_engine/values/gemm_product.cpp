#include "sim_engine/values/gemm_product.h"

#include <Eigen/Core>
#include <algorithm>
#include <new>
#include <span>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::sim {

namespace {

// Measured: among blocks from 128 to 512, these are closest to Eigen's product of whole matrices.
constexpr std::int64_t kPartRows = 256;
constexpr std::int64_t kPartColumns = 256;
constexpr std::int64_t kDepth = 512;

constexpr std::int64_t kLineFloats = 16;  // of a cache line
constexpr std::align_val_t kAlignment{kLineFloats * sizeof(float)};

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Matrix = Eigen::Map<RowMajor, Eigen::Aligned64, Eigen::OuterStride<>>;

// Eigen chooses its blocks by the host's cache sizes, so hosts with other caches would compute
// other bits; fixed sizes prevent that.
void pin_cache_sizes() {
  [[maybe_unused]] static const bool pinned = [] {
    Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20);
    return true;
  }();
}

// A rectangle of a matrix, as f32; every row begins at a cache line.
struct Block {
  float* floats;
  std::int64_t rows;
  std::int64_t columns;

  std::int64_t pitch() const { return ceil_divide(columns, kLineFloats) * kLineFloats; }
  std::span<float> row(std::int64_t index) const {
    return {floats + index * pitch(), static_cast<std::size_t>(columns)};
  }
  // True if the rows lie as those of a matrix whose rows begin so far apart: then all of them are
  // converted at once, which for small matrices takes half as long.
  bool lies_as(std::int64_t other_pitch) const {
    return pitch() == columns && other_pitch == columns;
  }
  std::span<float> all() const { return {floats, static_cast<std::size_t>(rows * columns)}; }
  Matrix matrix() const { return {floats, rows, columns, Eigen::OuterStride<>(pitch())}; }
};

// The rectangle of `block`'s size at (row, column) of a matrix of `width` columns.
void fill(const Block& block, const ElementSource& source, std::int64_t width, std::int64_t row,
          std::int64_t column) {
  if (source.data == nullptr) {  // in the gaps between rows, too
    std::fill_n(block.floats, block.rows * block.pitch(), source.scalar);
    return;
  }
  const std::int64_t pitch = source.pitch == 0 ? width : source.pitch;
  const auto convert = [&](std::int64_t from_row, std::span<float> to) {
    const std::int64_t first = from_row * pitch + column;
    decode(source.dtype, source.data + first * size_of(source.dtype), to);
  };
  if (block.lies_as(pitch)) return convert(row, block.all());
  for (std::int64_t i = 0; i < block.rows; ++i) convert(row + i, block.row(i));
}

}  // namespace

void GemmWorkspace::Free::operator()(float* floats) const {
  operator delete[](floats, kAlignment);
}

void GemmWorkspace::allocate() {
  pin_cache_sizes();
  constexpr std::size_t kFloats =
      kPartRows * kDepth + kDepth * kPartColumns + kPartRows * kPartColumns;
  if (floats_ == nullptr) floats_.reset(new (kAlignment) float[kFloats]);
}

float* GemmWorkspace::b() const {
  return a() + kPartRows * kDepth;
}

float* GemmWorkspace::result() const {
  return b() + kDepth * kPartColumns;
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

  const Block sum{workspace.result(), rows, columns};
  fill(sum, product.accumulator, n, row, column);
  for (std::int64_t first = 0; first < k; first += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - first);
    const Block a{workspace.a(), rows, depth};
    const Block b{workspace.b(), depth, columns};
    fill(a, product.a, k, row, first);
    fill(b, product.b, n, first, column);
    sum.matrix().noalias() += a.matrix() * b.matrix();
  }
  const auto convert = [&](std::span<const float> from, std::int64_t to_row) {
    const std::int64_t first = to_row * n + column;
    encode(product.dtype, from, product.target + first * size_of(product.dtype));
  };
  if (sum.lies_as(n)) return convert(sum.all(), row);
  for (std::int64_t i = 0; i < rows; ++i) convert(sum.row(i), row + i);
}

}  // namespace kernbench::sim
