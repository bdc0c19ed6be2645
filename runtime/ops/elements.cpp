#include "runtime/ops/elements.h"

#include <algorithm>
#include <variant>

#include "runtime/ops/fusion.h"
#include "runtime/ops/pieces.h"
#include "runtime/ops/strided_copy.h"
#include "runtime/tensor/strided_view.h"
#include "sim_engine/base/check.h"

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

// Goes through a PE's part of a domain, `most` elements at a time.
class DomainPart {
 public:
  // `like`: the part of a tensor with the domain's rows.
  DomainPart(tl::Context& tl, const Domain& domain, const LocalPart& like,
             const std::vector<KernelOperand>& operands, std::int64_t most)
      : tl_(tl), along_(domain.along), most_(most), shape_(like.shape) {
    const std::size_t rank = shape_.rank();
    if (along_ != Along::elements) {
      shape_ = with_size(shape_, rank - 1, domain.shape[rank - 1]);
    }
    if (rank == 2) first_row_ = like.offset[0];
    std::vector<Tensor> in_blocks;
    for (const KernelOperand& operand : operands) {
      if (!operand.is_whole) in_blocks.push_back(operand.tensor);
    }
    loops_ = broadcast_loops(domain.shape, shape_, in_blocks, along_);
    std::size_t index = 0;
    for (const KernelOperand& operand : operands) {
      if (operand.is_whole) {
        sources_.emplace_back(load_whole(operand.tensor));
      } else {
        sources_.emplace_back(BroadcastOperand(operand.tensor, index++, loops_, tl));
      }
    }
  }

  std::int64_t numel() const { return shape_.numel(); }
  std::int64_t columns() const { return loops_.back().size; }

  // Calls visit(values, block), with the block's rows counted from the part's first.
  template <class Visit>
  void run(const BodyOfBlocks& function, Visit visit) {
    const std::int64_t rows = loops_[loops_.size() - 2].size;
    const std::int64_t most = along_ == Along::elements ? most_ : std::max(most_, columns());
    std::int64_t first = 0;
    for_each_outer_index(loops_, [&](const std::vector<std::int64_t>& outer) {
      for_each_matrix_block(most, rows, columns(), [&](const MatrixBlock& block) {
        visit(compute_values(function, outer, block),
              MatrixBlock{first + block.row, block.column, block.height, block.width});
      });
      first += rows;
    });
  }

  std::vector<tl::Tensor> compute_values(const BodyOfBlocks& function,
                                         const std::vector<std::int64_t>& outer,
                                         const MatrixBlock& block) {
    std::vector<tl::Tensor> blocks;
    for (auto& source : sources_) {
      const auto* const whole = std::get_if<tl::Tensor>(&source);
      blocks.push_back(
          whole != nullptr ? *whole : std::get<BroadcastOperand>(source).block(tl_, outer, block));
    }
    return function(tl_, std::move(blocks), {first_row_ + block.row, block.height});
  }

 private:
  tl::Tensor load_whole(const Tensor& tensor) const {
    const LocalPart part = local_part(tensor, tl_);
    return tl_.load(part.data, {part.rows, part.columns}, part.data.dtype());
  }

  tl::Context& tl_;
  const Along along_;
  const std::int64_t most_;
  Shape shape_;
  std::int64_t first_row_ = 0;  // in the domain, where that is one matrix
  std::vector<BroadcastLoop> loops_;
  std::vector<std::variant<BroadcastOperand, tl::Tensor>> sources_;
};

// Computes this PE's parts of results that lie alike, `most` elements at a time.  They have all
// columns of the domain or one element for each of its rows.
void map_part(tl::Context& tl, const std::vector<Tensor>& results,
              const std::vector<KernelOperand>& operands, const Domain& domain, std::int64_t most,
              const BodyOfBlocks& function) {
  std::vector<LocalPart> targets;
  for (const Tensor& result : results) targets.push_back(local_part(result, tl));
  DomainPart part(tl, domain, targets.front(), operands, most);
  if (part.numel() == 0) return;
  const bool is_filled =
      domain.along == Along::elements && part.numel() > 1 &&
      std::ranges::all_of(operands, [](auto& operand) { return operand.tensor.numel() == 1; });
  if (is_filled) {
    const std::vector<tl::Tensor> numbers = part.compute_values(function, {}, {0, 0, 1, 1});
    for (std::size_t i = 0; i < numbers.size(); ++i) fill_part(tl, targets[i], numbers[i]);
    return;
  }
  part.run(function, [&](const std::vector<tl::Tensor>& values, const MatrixBlock& block) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool is_column = results[i].shape() != domain.shape;
      const std::int64_t pitch = is_column ? 1 : part.columns();
      const MatrixBlock own{block.row, is_column ? 0 : block.column, block.height,
                            is_column ? 1 : block.width};
      tl.store(targets[i].data + own.row * pitch + own.column, whole_block(tl, values[i], own),
               pitch);
    }
  });
}

// A tensor that has the domain's rows.
const Tensor& find_operand_with_rows(const Shape& domain,
                                     const std::vector<KernelOperand>& operands) {
  const auto found = std::ranges::find_if(operands, [&](const KernelOperand& operand) {
    return !operand.is_whole && has_rows_of(domain, operand.tensor.shape());
  });
  KB_CHECK(found != operands.end(), "no operand has the rows of {}", to_string(domain));
  return found->tensor;
}

void fold_part(tl::Context& tl, const std::vector<Tensor>& results,
               const std::vector<KernelOperand>& operands, const std::vector<Fold>& folds,
               const Domain& domain, const BodyOfBlocks& function) {
  std::vector<LocalPart> targets;
  std::vector<tl::Tensor> values;
  for (std::size_t i = 0; i < results.size(); ++i) {
    targets.push_back(local_part(results[i], tl));
    values.push_back(tl.full({targets[i].rows, targets[i].columns}, folds[i].reduction.initial,
                             folds[i].computed_in));
  }
  DomainPart part(tl, domain, local_part(find_operand_with_rows(domain.shape, operands), tl),
                  operands, block_elements(tl));
  if (part.numel() > 0) {
    part.run(function, [&](const std::vector<tl::Tensor>& of_block, const MatrixBlock&) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = folds[i].reduction.joined(tl, values[i], of_block[i]);
      }
    });
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto finish = folds[i].reduction.result;
    const tl::Tensor value = finish == nullptr ? values[i] : finish(tl, values[i], folds[i].count);
    tl.store(targets[i].data, tl.cast(value, results[i].dtype()));
  }
}

std::vector<KernelOperand> in_blocks(const std::vector<Tensor>& tensors) {
  std::vector<KernelOperand> operands;
  for (const Tensor& tensor : tensors) operands.push_back({tensor});
  return operands;
}

std::vector<Tensor> list_tensors(const std::vector<KernelOperand>& operands) {
  std::vector<Tensor> tensors;
  for (const KernelOperand& operand : operands) tensors.push_back(operand.tensor);
  return tensors;
}

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
    map_part(tl, {result}, in_blocks(operands), {result.shape()}, block_elements(tl),
             [&](tl::Context&, const std::vector<tl::Tensor>& blocks, const RowBlock&) {
               return std::vector{function(tl, blocks)};
             });
  };
  launch(name, {result}, operands, if_owns(function, body));
}

void map_all_into(const std::vector<Tensor>& results, std::string_view name,
                  const std::vector<KernelOperand>& operands, const BlocksFunction& function,
                  std::size_t most_values, const Domain& domain) {
  // block_elements() leaves room for a dozen blocks, three of them an operator's own values.
  constexpr std::int64_t kRoom = 12;
  const std::int64_t blocks = std::max(kRoom, kRoom - 3 + static_cast<std::int64_t>(most_values));
  const auto body = [=](tl::Context& tl) {
    const std::int64_t most = std::max<std::int64_t>(block_elements(tl) * kRoom / blocks, 1);
    map_part(tl, results, operands, domain, most, function);
  };
  launch(name, results, list_tensors(operands), if_owns(function, body));
}

void fold_all_into(const std::vector<Tensor>& results, std::string_view name,
                   const std::vector<KernelOperand>& operands, const BlocksFunction& function,
                   const std::vector<Fold>& folds, const Domain& domain) {
  const auto body = [=](tl::Context& tl) {
    fold_part(tl, results, operands, folds, domain, function);
  };
  launch(name, results, list_tensors(operands), if_owns(function, body));
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
    map_part(tl, {result}, in_blocks(operands), domain, block_elements(tl),
             [&](tl::Context&, const std::vector<tl::Tensor>& blocks, const RowBlock& rows) {
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

Tensor make_sum(const Tensor& a, const Tensor& b) {
  return map("add", elementwise_placement("add", a, b, Linearity::together), {a, b},
             [](tl::Context&, std::span<const tl::Tensor> of) { return of[0] + of[1]; });
}

void add_into(const Tensor& target, const Tensor& x) {
  elementwise_placement("add to a gradient", target, x, Linearity::together);
  map_into(target, "add", {target, x},
           [](tl::Context&, std::span<const tl::Tensor> of) { return of[0] + of[1]; });
}

}  // namespace kernbench::ops
