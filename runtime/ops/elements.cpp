#include "runtime/ops/elements.h"

#include <algorithm>

#include "runtime/ops/fusion.h"
#include "runtime/ops/pieces.h"
#include "runtime/ops/strided_copy.h"
#include "runtime/tensor/strided_view.h"

namespace kernbench::ops {

namespace {

// Stores the same number everywhere: all operands have one element.
void fill_part(tl::Context& tl, const LocalPart& target, const tl::Tensor& number) {
  const std::int64_t count = target.shape.numel();
  const std::int64_t most = std::min(block_elements(tl), count);
  const tl::Tensor block = tl.zeros({most}, number.dtype()) + tl.reshape(number, {1});
  for_each_block(count, most, [&](std::int64_t begin, std::int64_t size) {
    tl.store(target.data + begin, tl.narrow(block, 0, size));
  });
}

// Returns a block in its whole size, where it has a size of 1 since all operands repeat there.
tl::Tensor whole_block(tl::Context& tl, const tl::Tensor& value, const MatrixBlock& block) {
  const Shape shape{block.height, block.width};
  return value.shape() == shape ? value : tl.zeros(shape, value.dtype()) + value;
}

using BodyOfBlocks = std::function<std::vector<tl::Tensor>(
    tl::Context&, std::vector<tl::Tensor> operands, const RowBlock& rows)>;

// A PE's part of a result, which has all columns of a domain or one element for each of its rows.
struct Target {
  LocalPart part;
  bool is_column = false;

  void store(tl::Context& tl, const tl::Tensor& value, std::int64_t first_row,
             const MatrixBlock& block, std::int64_t columns) const {
    const std::int64_t pitch = is_column ? 1 : columns;
    const MatrixBlock own{first_row + block.row, is_column ? 0 : block.column, block.height,
                          is_column ? 1 : block.width};
    tl.store(part.data + own.row * pitch + own.column, whole_block(tl, value, own), pitch);
  }
};

// Computes this PE's parts of results that lie alike, `most` elements at a time.
class PartMap {
 public:
  PartMap(tl::Context& tl, const std::vector<Tensor>& results, const std::vector<Tensor>& operands,
          const Domain& domain, std::int64_t most)
      : tl_(tl), operands_(operands), along_(domain.along), most_(most) {
    for (const Tensor& result : results) {
      targets_.push_back({local_part(result, tl), result.shape() != domain.shape});
    }
    const LocalPart& part = targets_.front().part;
    shape_ = part.shape;
    if (const std::size_t rank = domain.shape.rank(); targets_.front().is_column) {
      shape_ = with_size(shape_, rank - 1, domain.shape[rank - 1]);
    }
    if (shape_.rank() == 2) first_row_ = part.offset[0];
    loops_ = broadcast_loops(domain.shape, shape_, operands, along_);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      sources_.emplace_back(operands[i], i, loops_, tl);
    }
  }

  void run(const BodyOfBlocks& function) {
    if (shape_.numel() == 0) return;
    if (is_filled()) return fill(function);
    const std::int64_t rows = loops_[loops_.size() - 2].size;
    const std::int64_t columns = loops_.back().size;
    const std::int64_t most = along_ == Along::elements ? most_ : std::max(most_, columns);
    std::int64_t first = 0;
    for_each_outer_index(loops_, [&](const std::vector<std::int64_t>& outer) {
      for_each_matrix_block(most, rows, columns, [&](const MatrixBlock& block) {
        const std::vector<tl::Tensor> values = values_of(function, outer, block);
        for (std::size_t i = 0; i < values.size(); ++i) {
          targets_[i].store(tl_, values[i], first, block, columns);
        }
      });
      first += rows;
    });
  }

 private:
  std::vector<tl::Tensor> values_of(const BodyOfBlocks& function,
                                    const std::vector<std::int64_t>& outer,
                                    const MatrixBlock& block) {
    std::vector<tl::Tensor> blocks;
    for (BroadcastOperand& source : sources_) blocks.push_back(source.block(tl_, outer, block));
    return function(tl_, std::move(blocks), {first_row_ + block.row, block.height});
  }

  bool is_filled() const {
    return along_ == Along::elements && shape_.numel() > 1 &&
           std::ranges::all_of(operands_, [](auto& x) { return x.numel() == 1; });
  }
  void fill(const BodyOfBlocks& function) {
    const std::vector<tl::Tensor> numbers = values_of(function, {}, {0, 0, 1, 1});
    for (std::size_t i = 0; i < numbers.size(); ++i) fill_part(tl_, targets_[i].part, numbers[i]);
  }

  tl::Context& tl_;
  const std::vector<Tensor>& operands_;
  const Along along_;
  const std::int64_t most_;
  std::vector<Target> targets_;
  Shape shape_;                 // of the domain's part
  std::int64_t first_row_ = 0;  // of the domain, where it is one matrix
  std::vector<BroadcastLoop> loops_;
  std::vector<BroadcastOperand> sources_;
};

// A body that calls `function` owns what that owns.
template <class Function>
KernelBody if_owns(const Function& function, const std::function<void(tl::Context&)>& body) {
  if (!function.owns()) return body;
  return Owning([=](tl::Context& tl) { body(tl); });
}

}  // namespace

void map_into(const Tensor& result, std::string_view name, const std::vector<Tensor>& operands,
              const BlockFunction& function) {
  const auto body = [=](tl::Context& tl) {
    PartMap(tl, {result}, operands, {result.shape()}, block_elements(tl))
        .run([&](tl::Context&, const std::vector<tl::Tensor>& blocks, const RowBlock&) {
          return std::vector{function(tl, blocks)};
        });
  };
  launch(name, {result}, operands, if_owns(function, body));
}

void map_all_into(const std::vector<Tensor>& results, std::string_view name,
                  const std::vector<Tensor>& operands, const BlocksFunction& function,
                  std::size_t most_values, const Domain& domain) {
  // block_elements() leaves room for a dozen blocks, three of them an operator's own values.
  constexpr std::int64_t kRoom = 12;
  const std::int64_t blocks = std::max(kRoom, kRoom - 3 + static_cast<std::int64_t>(most_values));
  const auto body = [=](tl::Context& tl) {
    const std::int64_t most = std::max<std::int64_t>(block_elements(tl) * kRoom / blocks, 1);
    PartMap(tl, results, operands, domain, most).run(function);
  };
  launch(name, results, operands, if_owns(function, body));
}

Tensor map_to(std::string_view name, const Shape& shape, DType dtype, const Placement& placement,
              const std::vector<Tensor>& operands, const BlockFunction& function) {
  if (Fusion* const fusion = fusion_of(operands.front()); fusion != nullptr && function.owns()) {
    return fusion->defer({std::string(name),
                          {shape},
                          shape,
                          dtype,
                          placement,
                          operands,
                          [function](tl::Context& tl, std::span<const tl::Tensor> of,
                                     const RowBlock&) { return function(tl, of); }});
  }
  Tensor result = make_like(operands.front(), name, shape, dtype, placement);
  map_into(result, name, operands, function);
  return result;
}

Tensor map(std::string_view name, const Placement& placement, const std::vector<Tensor>& operands,
           const BlockFunction& function) {
  const Tensor& first = operands.front();
  return map_to(name, first.shape(), first.dtype(), placement, operands, function);
}

Tensor map_rows(std::string_view name, const Placement& placement,
                const std::vector<Tensor>& operands, const RowFunction& function) {
  const Tensor& first = operands.front();
  const Domain domain{first.shape(), Along::matrices};
  const Fusion* const fusion = fusion_of(first);
  if (fusion != nullptr && function.owns() && may_defer_rows(first)) {
    return fusion->defer(
        {std::string(name), domain, first.shape(), first.dtype(), placement, operands, function});
  }
  Tensor result = make_like(first, name, first.shape(), first.dtype(), placement);
  const auto body = [=](tl::Context& tl) {
    PartMap(tl, {result}, operands, domain, block_elements(tl))
        .run([&](tl::Context&, const std::vector<tl::Tensor>& blocks, const RowBlock& rows) {
          return std::vector{function(tl, blocks, rows)};
        });
  };
  const std::int64_t columns = first.shape()[first.shape().rank() - 1];
  launch_on_rows(name, {result}, operands, columns, if_owns(function, body));
  return result;
}

void fill(const Tensor& target, const Scalar& value) {
  if (runtime::is_strided(target)) {
    const Tensor filled =
        make_like(target, "fill_", target.shape(), target.dtype(), placement_of(target));
    fill(filled, value);
    return write_view(target, filled);
  }
  launch("fill_", {target}, {}, [target, value](tl::Context& tl) {
    const LocalPart part = local_part(target, tl);
    const std::int64_t count = part.shape.numel();
    const std::int64_t most = std::min(block_elements(tl), count);
    const tl::Tensor block = tl.full({most}, value, target.dtype());
    for_each_block(count, most, [&](std::int64_t begin, std::int64_t size) {
      tl.store(part.data + begin, tl.narrow(block, 0, size));
    });
  });
}

Tensor make_copy(const Tensor& x) {
  if (runtime::is_strided(x)) return dense(x, "copy");
  return map("copy", placement_of(x), {x},
             [](tl::Context&, std::span<const tl::Tensor> of) { return of[0]; });
}

Tensor converted(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return map_to("to", x.shape(), dtype, placement_of(x), {x},
                Owning([dtype](tl::Context& tl, std::span<const tl::Tensor> of) {
                  return tl.cast(of[0], dtype);
                }));
}

void copy_into(const Tensor& target, const Tensor& x) {
  map_into(target, "copy_", {x},
           Owning([dtype = target.dtype()](tl::Context& tl, std::span<const tl::Tensor> of) {
             return tl.cast(of[0], dtype);
           }));
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  return map("add", elementwise_placement("add", a, b, Linearity::together), {a, b},
             [](tl::Context&, std::span<const tl::Tensor> of) { return of[0] + of[1]; });
}

void add_into(const Tensor& target, const Tensor& x) {
  elementwise_placement("add to a gradient", target, x, Linearity::together);
  map_into(target, "add", {target, x},
           [](tl::Context&, std::span<const tl::Tensor> of) { return of[0] + of[1]; });
}

}  // namespace kernbench::ops
