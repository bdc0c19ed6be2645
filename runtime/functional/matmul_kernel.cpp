#include "runtime/functional/matmul_kernel.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/functional/matrix_layout.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/tensor/strided_view.h"
#include "sim_engine/components/kernel_run.h"

namespace kernbench::ops {

namespace {

// A PE's part of an operand.
struct Matrices {
  tl::Pointer data;
  MatrixLayout layout;
  bool is_transposed = false;

  // True if a tile must be transposed after its load: the caller's transposition and the memory's
  // order differ.
  bool turns() const { return is_transposed != layout.is_turned; }

  // Loads elements at (row, column) of the matrix after its transposition, if any.
  tl::Tensor load(tl::Context& tl, std::int64_t index, std::int64_t row, std::int64_t column,
                  const Shape& shape) const {
    const tl::Pointer matrix = data + layout.find_begin(index);
    if (!turns()) {
      return tl.load(matrix + row * layout.pitch + column, shape, data.dtype(), layout.pitch);
    }
    return tl.trans(tl.load(matrix + column * layout.pitch + row, {shape[1], shape[0]},
                            data.dtype(), layout.pitch));
  }
};

Matrices make_matrices(const Tensor& tensor, const tl::Context& tl, bool is_folded,
                       bool is_transposed) {
  return {local_part(tensor, tl).data, *make_layout(shard_at(tensor, tl.location()), is_folded),
          is_transposed};
}

class GemmOnPe {
 public:
  GemmOnPe(tl::Context& tl, const Tensor& c, const GemmOperands& operands)
      : tl_(tl),
        a_(make_matrices(operands.a, tl, operands.is_folded, operands.transpose_a)),
        b_(make_matrices(operands.b, tl, operands.is_folded, operands.transpose_b)),
        c_(make_matrices(c, tl, operands.is_folded, false)),
        size_{c_.layout.rows, c_.layout.columns,
              operands.transpose_a ? a_.layout.rows : a_.layout.columns},
        alpha_(operands.alpha) {
    if (operands.bias.defined()) bias_ = local_part(operands.bias, tl).data;
  }

  // Tiles are small enough that loads ahead fit beside a collective's scratch: besides its own
  // operands, a step may have those of the next step loaded and one more on the way.
  sim::GemmSize choose_tile() const {
    const Bytes scratch = tl_.run().pe().scratch_for_tiles(true);
    return tl_.choose_tile(a_.data, b_.data, c_.data, size_, scratch / (transposes() ? 6 : 4));
  }

  void run(const sim::GemmSize& tile) {
    tl_.limit_commands_under_way((transposes() ? 6 : 4) + (has_epilogue() ? 2 : 0));
    const std::int64_t count = size_.m == 0 ? 0 : c_.layout.count();
    for (std::int64_t i = 0; i < count; ++i) {
      for_each_block(size_.m, tile.m, [&](std::int64_t row, std::int64_t height) {
        for_each_block(size_.n, tile.n, [&](std::int64_t column, std::int64_t width) {
          tl_.store(c_.data + (i * size_.m + row) * size_.n + column,
                    product(i, row, column, {height, width, tile.k}), size_.n);
        });
      });
    }
  }

 private:
  bool transposes() const { return a_.turns() || b_.turns(); }
  bool has_epilogue() const { return alpha_ != 1 || bias_; }

  // Computes one tile of c.
  tl::Tensor product(std::int64_t index, std::int64_t row, std::int64_t column,
                     const sim::GemmSize& tile) {
    if (!has_epilogue()) return sum_of_products(index, row, column, tile, c_.data.dtype());
    std::optional<tl::Tensor> bias;  // loaded before the operands that the products wait for
    if (bias_) bias = tl_.load(*bias_ + column, {1, tile.n}, bias_->dtype());
    const tl::Tensor sum = sum_of_products(index, row, column, tile, DType::f32);
    return tl_.cast(bias ? tl_.fma(sum, alpha_, tl_.cast(*bias, DType::f32)) : sum * alpha_,
                    c_.data.dtype());
  }

  // Sums the products in f32 and rounds the sum to a type.
  tl::Tensor sum_of_products(std::int64_t index, std::int64_t row, std::int64_t column,
                             const sim::GemmSize& tile, DType dtype) {
    std::optional<tl::Tensor> sum;
    for_each_block(size_.k, tile.k, [&](std::int64_t k, std::int64_t depth) {
      const tl::Tensor a = a_.load(tl_, index, row, k, {tile.m, depth});
      const tl::Tensor b = b_.load(tl_, index, k, column, {depth, tile.n});
      const bool is_last = k + depth == size_.k;
      const tl::DotOptions options{.out_dtype = is_last ? dtype : DType::f32};
      sum = sum ? tl_.dot(a, b, std::move(*sum), options) : tl_.dot(a, b, options);
    });
    return sum ? *sum : tl_.zeros({tile.m, tile.n}, dtype);
  }

  tl::Context& tl_;
  const Matrices a_;
  const Matrices b_;
  const Matrices c_;
  const sim::GemmSize size_;
  const double alpha_;
  std::optional<tl::Pointer> bias_;
};

}  // namespace

bool is_read_in_place(const Tensor& factor, bool is_folded) {
  if (!runtime::is_strided(factor)) return true;
  return factor.dim() >= 2 && std::ranges::all_of(factor.shards(), [&](const ShardInfo& shard) {
           return make_layout(shard, is_folded).has_value();
         });
}

void gemm_into(const Tensor& c, const GemmOperands& operands) {
  // The first PE's, for all: its part is no smaller than others.
  const auto tile = std::make_shared<std::optional<sim::GemmSize>>();
  std::vector<Tensor> uses = {operands.a, operands.b};
  if (operands.bias.defined()) uses.push_back(operands.bias);
  for (const Tensor& use : uses) check_lies_together(operands.name(), use);
  launch_on_views(operands.name(), {c}, uses, [=](tl::Context& tl) {
    GemmOnPe gemm(tl, c, operands);
    if (!*tile) *tile = gemm.choose_tile();
    gemm.run(**tile);
  });
}

}  // namespace kernbench::ops
