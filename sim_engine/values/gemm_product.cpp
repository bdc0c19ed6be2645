#include "sim_engine/values/gemm_product.h"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
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

// Elements where they lie.  From this size on Eigen copies its operands into an order of its own
// first, so that neither their alignment nor their pitch can change a bit of the product.
constexpr std::int64_t kLeastInPlace = 16;
using InPlace = Eigen::Map<RowMajor, Eigen::Unaligned, Eigen::OuterStride<>>;
using SourceInPlace = Eigen::Map<const RowMajor, Eigen::Unaligned, Eigen::OuterStride<>>;

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

// Elements of an operand from `first` on, which follow each other.
void convert(const ElementSource& source, std::int64_t first, std::span<float> to) {
  if (source.data == nullptr) {
    // A constant 0 is filled in faster.
    const bool is_zero = std::bit_cast<std::uint32_t>(source.scalar) == 0;
    is_zero ? std::ranges::fill(to, 0.0F) : std::ranges::fill(to, source.scalar);
  } else {
    decode(source.dtype, source.data + first * size_of(source.dtype), to);
  }
}

// The rectangle of `block`'s size at (row, column) of a matrix of `width` columns.
void fill(const Block& block, const ElementSource& source, std::int64_t width, std::int64_t row,
          std::int64_t column) {
  const std::int64_t pitch = source.pitch == 0 ? width : source.pitch;
  if (block.lies_as(pitch)) return convert(source, row * pitch + column, block.all());
  for (std::int64_t i = 0; i < block.rows; ++i) {
    convert(source, (row + i) * pitch + column, block.row(i));
  }
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

namespace {

// A part of the result.
struct Part {
  std::int64_t row;
  std::int64_t column;
  std::int64_t rows;
  std::int64_t columns;

  bool may_lie_anywhere() const { return rows >= kLeastInPlace && columns >= kLeastInPlace; }
};

bool is_in_place(const ElementSource& source) {
  return source.dtype == DType::f32 && source.data != nullptr;
}

SourceInPlace map_block(const ElementSource& source, std::int64_t rows, std::int64_t columns,
                        std::int64_t width, std::int64_t row, std::int64_t column) {
  const std::int64_t pitch = source.pitch == 0 ? width : source.pitch;
  const auto* const floats = reinterpret_cast<const float*>(source.data);
  return {floats + row * pitch + column, rows, columns, Eigen::OuterStride<>(pitch)};
}

// sum += a b
template <class Sum>
void add_products(const GemmProduct& product, const Part& part, GemmWorkspace& workspace, Sum sum) {
  const auto& [m, n, k] = product.size;
  const bool are_floats = is_in_place(product.a) && is_in_place(product.b);
  for (std::int64_t first = 0; first < k; first += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - first);
    if (are_floats && part.may_lie_anywhere() && depth >= kLeastInPlace) {
      sum.noalias() += map_block(product.a, part.rows, depth, k, part.row, first) *
                       map_block(product.b, depth, part.columns, n, first, part.column);
      continue;
    }
    const Block a{workspace.a(), part.rows, depth};
    const Block b{workspace.b(), depth, part.columns};
    fill(a, product.a, k, part.row, first);
    fill(b, product.b, n, first, part.column);
    sum.noalias() += a.matrix() * b.matrix();
  }
}

// Computes a part of f32 where it will lie.
void compute_in_place(const GemmProduct& product, const Part& part, GemmWorkspace& workspace) {
  const std::int64_t n = product.size.n;
  auto* const target = reinterpret_cast<float*>(product.target) + part.row * n + part.column;
  const std::int64_t at_once = part.columns == n ? part.rows : 1;  // rows
  for (std::int64_t i = 0; i < part.rows && product.accumulator.data != product.target;
       i += at_once) {
    convert(product.accumulator, (part.row + i) * n + part.column,
            {target + i * n, static_cast<std::size_t>(at_once * part.columns)});
  }
  add_products(product, part, workspace,
               InPlace(target, part.rows, part.columns, Eigen::OuterStride<>(n)));
}

}  // namespace

void compute_gemm_part(const GemmProduct& product, std::int64_t part, GemmWorkspace& workspace) {
  const auto& [m, n, k] = product.size;
  const std::int64_t across = ceil_divide(n, kPartColumns);
  const std::int64_t row = part / across * kPartRows;
  const std::int64_t column = part % across * kPartColumns;
  const Part own{row, column, std::min(kPartRows, m - row), std::min(kPartColumns, n - column)};
  if (product.dtype == DType::f32 && own.may_lie_anywhere()) {
    return compute_in_place(product, own, workspace);
  }
  const Block sum{workspace.result(), own.rows, own.columns};
  fill(sum, product.accumulator, n, row, column);
  add_products(product, own, workspace, sum.matrix());
  const auto store = [&](std::span<const float> from, std::int64_t to_row) {
    const std::int64_t first = to_row * n + column;
    encode(product.dtype, from, product.target + first * size_of(product.dtype));
  };
  if (sum.lies_as(n)) return store(sum.all(), row);
  for (std::int64_t i = 0; i < own.rows; ++i) store(sum.row(i), row + i);
}

}  // namespace kernbench::sim
