// Elementwise kernels, and those that undo a broadcast.  They record nothing: operators and the
// autograd engine are built from them.

#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "runtime/ops/broadcast.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/reduce.h"

namespace kernbench::ops {

// Computes a block of the result, in its type, from the operands' blocks, in theirs.  The blocks
// have two dimensions, of size 1 where the operand repeats; so may the result's block.
using BlockFunction =
    KernelFunction<tl::Tensor(tl::Context&, std::span<const tl::Tensor> operands)>;

// result = function(operands...).  Operands broadcast to the result's shape, and lie as
// elementwise_placement() says.  The result may be an operand that does not repeat.
void map_into(const Tensor& result, std::string_view name, const std::vector<Tensor>& operands,
              const BlockFunction& function);

// Rows [first, first + count) of one of the matrices that a tensor's last two dimensions form.
struct RowBlock {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// The elements that a kernel goes through, in such blocks.
struct Domain {
  Shape shape;
  Along along = Along::elements;
};
// A tensor whose blocks belong to those of a domain, or which every PE loads whole, once.
struct KernelOperand {
  Tensor tensor;
  bool is_whole = false;  // it is replicated, and its block is [rows, columns]
};
// Computes a block of each of several results from the operands' blocks.  `rows` are meant if the
// blocks are along matrices.
using BlocksFunction = KernelFunction<std::vector<tl::Tensor>(
    tl::Context&, std::vector<tl::Tensor> operands, const RowBlock& rows)>;
// Does as map_into() for results that lie alike.  They have the shape of the domain or, where that
// is along rows, one element per row.  `most_values`: how many of its values the function holds at
// a time.
void map_all_into(const std::vector<Tensor>& results, std::string_view name,
                  const std::vector<KernelOperand>& operands, const BlocksFunction& function,
                  std::size_t most_values, const Domain& domain);

// A result that is folded from what its function computes of each block of whole rows.
struct Fold {
  Reduction reduction;  // of which it takes all but of_block()
  DType computed_in = DType::f32;
  double count = 1;  // elements that one result has
};
// Does as map_all_into(), but puts together what the function computes of the blocks.
// REQUIRES: the domain's rows are along one of the operands, and no operand repeats along some of
// its dimensions before the last alone
void fold_all_into(const std::vector<Tensor>& results, std::string_view name,
                   const std::vector<KernelOperand>& operands, const BlocksFunction& function,
                   const std::vector<Fold>& folds, const Domain& domain);

// Does the same as map_into(), into a new tensor of this shape and type, whose value may be
// deferred (fusion.h).
Tensor map_to(std::string_view name, const Shape& shape, DType dtype, const Placement& placement,
              const std::vector<Tensor>& operands, const BlockFunction& function);
// Does the same as map_to(), with the first operand's shape and type.
Tensor map(std::string_view name, const Placement& placement, const std::vector<Tensor>& operands,
           const BlockFunction& function);

// Sets every element that a holder has.
void fill(const Tensor& target, const Scalar& value);

Tensor make_copy(const Tensor& x);
// Returns x in another type; x itself if it has that type.
Tensor converted(const Tensor& x, DType dtype);
// Writes x, rounded to the target's type, into the target.
// REQUIRES: they have one shape and one placement, and share no elements
void copy_into(const Tensor& target, const Tensor& x);
// Returns a + b, for equal shapes.
Tensor make_sum(const Tensor& a, const Tensor& b);
// target += x.
void add_into(const Tensor& target, const Tensor& x);

// Computes whole rows.  An operand's block is [count, columns], or [1, columns] of a vector along
// the columns, or [count, 1] of a tensor whose last dimension is 1.
using RowFunction = KernelFunction<tl::Tensor(tl::Context&, std::span<const tl::Tensor> operands,
                                              const RowBlock& rows)>;

// Does as map(), but with whole rows, of one matrix at a time.  An operand may also have a last
// dimension of 1: one element per row.
Tensor map_rows(std::string_view name, const Placement& placement,
                const std::vector<Tensor>& operands, const RowFunction& function);

// Calls visit(row, height) for blocks of whole rows, for kernels along rows.
template <class Visit>
void for_each_row_block(const tl::Context& tl, const LocalPart& part, Visit visit) {
  const std::int64_t most = block_elements(tl) / std::max<std::int64_t>(part.columns, 1);
  for_each_block(part.rows, std::max<std::int64_t>(most, 1), visit);
}

}  // namespace kernbench::ops
