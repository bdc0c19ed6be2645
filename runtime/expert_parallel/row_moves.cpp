#include "runtime/expert_parallel/row_moves.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "runtime/functional/spread_matrix.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"

namespace kernbench::moe {

namespace {

// Rows of one width that follow each other in the memory of a PE.
struct HeldRows {
  std::int64_t first = 0;
  std::int64_t count = 0;
  tl::Pointer data;
};

// Where the rows lie of which one PE takes some: the nearest copy of each.
class HeldRowsOf {
 public:
  HeldRowsOf(const ops::SpreadMatrix& matrix, const sim::PeLocation& pe, std::int64_t rows,
             std::int64_t abreast) {
    const auto blocks = matrix.rows_for(pe, 0, rows, 0).blocks;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::int64_t end = i + 1 < blocks.size() ? blocks[i + 1].row : rows;
      held_.push_back(
          {blocks[i].row * abreast, (end - blocks[i].row) * abreast, blocks[i].pointer});
    }
  }

  const HeldRows& holder_of(std::int64_t row) const {
    return *std::prev(std::ranges::upper_bound(held_, row, {}, &HeldRows::first));
  }

 private:
  std::vector<HeldRows> held_;
};

// Loads and stores the rows that one PE has of the result.
class RowMove {
 public:
  RowMove(tl::Context& tl, const tl::Pointer& to, const HeldRowsOf& held, std::int64_t width)
      : tl_(tl), to_(to), held_(held), width_(width) {}

  // `sources` are those of the PE's rows.
  void run(std::span<const std::int64_t> sources) {
    const auto count = std::ssize(sources);
    const std::int64_t most =
        std::max<std::int64_t>(ops::block_elements(tl_) / std::max<std::int64_t>(width_, 1), 1);
    for (std::int64_t begin = 0; begin < count;) {
      const std::int64_t rows = count_together(sources.subspan(static_cast<std::size_t>(begin)));
      ops::for_each_block(rows, most, [&](std::int64_t at, std::int64_t height) {
        tl_.store(to_ + (begin + at) * width_,
                  load(sources[static_cast<std::size_t>(begin)], at, height));
      });
      begin += rows;
    }
  }

 private:
  // The rows from the first on that lie behind each other in one place, or are zeros.
  std::int64_t count_together(std::span<const std::int64_t> sources) const {
    const std::int64_t first = sources.front();
    const HeldRows* const held = first == kNoRow ? nullptr : &held_.holder_of(first);
    std::int64_t count = 1;
    while (count < std::ssize(sources)) {
      const std::int64_t next = sources[static_cast<std::size_t>(count)];
      const bool follows = held == nullptr
                               ? next == kNoRow
                               : next == first + count && next < held->first + held->count;
      if (!follows) break;
      ++count;
    }
    return count;
  }

  tl::Tensor load(std::int64_t first, std::int64_t at, std::int64_t height) {
    const Shape shape{height, width_};
    if (first == kNoRow) return tl_.zeros(shape, to_.dtype());
    const HeldRows& held = held_.holder_of(first);
    return tl_.load(held.data + (first + at - held.first) * width_, shape, to_.dtype());
  }

  tl::Context& tl_;
  const tl::Pointer to_;
  const HeldRowsOf& held_;
  const std::int64_t width_;
};

}  // namespace

Tensor move_rows(std::string_view name, const Tensor& x, std::int64_t width, RowSources sources,
                 std::int64_t abreast) {
  const std::int64_t rows = std::ssize(sources) / abreast;
  const Tensor result =
      ops::make_like(x, name, {rows, abreast * width}, x.dtype(), ops::placement_of(x));
  if (result.numel() == 0) return result;
  const bool has_source = x.numel() > 0;
  ops::launch(name, {result}, {x},
              [result, abreast, width, rows_of_x = has_source ? x.size(0) : 0,
               abreast_in_x = x.size(1) / std::max<std::int64_t>(width, 1),
               spread = std::make_shared<const ops::SpreadMatrix>(name, x),
               all = std::make_shared<const RowSources>(std::move(sources))](tl::Context& tl) {
                const ops::LocalPart into = ops::local_part(result, tl);
                if (into.rows == 0) return;
                const HeldRowsOf held(*spread, tl.location(), rows_of_x, abreast_in_x);
                RowMove(tl, into.data, held, width)
                    .run(std::span(*all).subspan(static_cast<std::size_t>(into.offset[0] * abreast),
                                                 static_cast<std::size_t>(into.rows * abreast)));
              });
  return result;
}

}  // namespace kernbench::moe
