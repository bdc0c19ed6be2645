// split_heads and merge_heads.

#include <fmt/format.h>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"

namespace kernbench {

namespace {

using ops::Level;
using ops::LocalPart;

// The sizes of a PE's part as [s, h d] and [h, s, d].
struct HeadForm {
  std::int64_t rows = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;  // d
};

HeadForm to_head_form(const LocalPart& heads) {
  return {heads.shape[1], heads.shape[0], heads.shape[2]};
}

// Visits each head's elements in blocks, with their positions in [s, h d] and in [h, s, d].
template <class Visit>
void for_each_head_block(const tl::Context& tl, const HeadForm& form, Visit visit) {
  for (std::int64_t head = 0; head < form.heads; ++head) {
    ops::for_each_matrix_block(tl, form.rows, form.width, [&](const ops::MatrixBlock& block) {
      visit((block.row * form.heads + head) * form.width + block.column,
            (head * form.rows + block.row) * form.width + block.column,
            Shape{block.height, block.width});
    });
  }
}

// Replaces a split dimension `from` by `to`.
ops::Placement moved(const Tensor& x, std::size_t from, std::size_t to, std::string_view name) {
  const auto placement =
      ops::by_level(ops::placement_of(x), [&](const Level& level) -> std::optional<Level> {
        if (!level.is_cut()) return level;
        return level.dimension == from ? std::optional(ops::cut(to)) : std::nullopt;
      });
  if (!placement) ops::refuse_placement(name, x, "only heads may be shared by PEs");
  return *placement;
}

// Refuses unless every holder has whole heads, the same ones as in the result.
void check_heads(std::string_view name, const Tensor& x, const Tensor& flat, const Tensor& heads) {
  const std::int64_t width = heads.shape()[2];
  for (std::size_t i = 0; i < flat.shards().size(); ++i) {
    const ShardInfo& of_flat = flat.shards()[i];
    const ShardInfo& of_heads = heads.shards()[i];
    if (of_flat.shape[1] == of_heads.shape[0] * width &&
        (of_flat.shape[1] == 0 || of_flat.offset[1] == of_heads.offset[0] * width)) {
      continue;
    }
    ops::refuse_placement(name, x,
                          fmt::format("{} heads of {} cannot be shared evenly by its holders",
                                      heads.shape()[0], width));
  }
}

Tensor with_split_heads(const Tensor& x, std::int64_t heads) {
  const Shape shape{heads, x.shape()[0], x.shape()[1] / heads};
  Tensor result = ops::make_like(x, "split_heads", shape, x.dtype(), moved(x, 1, 0, "split_heads"));
  check_heads("split_heads", x, x, result);
  ops::launch("split_heads", {result}, {x}, [=](tl::Context& tl) {
    const LocalPart source = ops::local_part(x, tl);
    const LocalPart target = ops::local_part(result, tl);
    for_each_head_block(tl, to_head_form(target),
                        [&](std::int64_t in_rows, std::int64_t in_heads, const Shape& block) {
                          tl.store(target.data + in_heads,
                                   tl.load(source.data + in_rows, block, x.dtype(), source.columns),
                                   target.columns);
                        });
  });
  return result;
}

Tensor with_merged_heads(const Tensor& x) {
  const Shape shape{x.shape()[1], x.shape()[0] * x.shape()[2]};
  Tensor result = ops::make_like(x, "merge_heads", shape, x.dtype(), moved(x, 0, 1, "merge_heads"));
  check_heads("merge_heads", x, result, x);
  ops::launch("merge_heads", {result}, {x}, [=](tl::Context& tl) {
    const LocalPart source = ops::local_part(x, tl);
    const LocalPart target = ops::local_part(result, tl);
    for_each_head_block(tl, to_head_form(source),
                        [&](std::int64_t in_rows, std::int64_t in_heads, const Shape& block) {
                          tl.store(
                              target.data + in_rows,
                              tl.load(source.data + in_heads, block, x.dtype(), source.columns),
                              target.columns);
                        });
  });
  return result;
}

}  // namespace

Tensor split_heads(const Tensor& of, std::int64_t heads) {
  const Tensor x = contiguous(of);
  ops::check_operands("split_heads", {x}, ops::Types::any);
  if (x.shape().rank() != 2 || heads <= 0 || x.shape()[1] % heads != 0) {
    ops::refuse_shapes("split_heads", fmt::format("{} with {} heads; [s, heads d] is wanted",
                                                  to_string(x.shape()), heads));
  }
  return autograd::record("split_heads", with_split_heads(x, heads), {x},
                          [](const Tensor& dy) { return std::vector{with_merged_heads(dy)}; });
}

Tensor merge_heads(const Tensor& of) {
  const Tensor x = contiguous(of);
  ops::check_operands("merge_heads", {x}, ops::Types::any);
  if (x.shape().rank() != 3 || x.shape()[0] == 0) {
    ops::refuse_shapes("merge_heads",
                       fmt::format("{}; [heads, s, d] is wanted", to_string(x.shape())));
  }
  return autograd::record("merge_heads", with_merged_heads(x), {x},
                          [heads = x.shape()[0]](const Tensor& dy) {
                            return std::vector{with_split_heads(dy, heads)};
                          });
}

}  // namespace kernbench
