#include "runtime/functional/matmul_across_pes.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/functional/matrix_layout.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ops {

namespace {

// The rows of a tensor for each index of its first dimension.
std::int64_t rows_per_index(const Shape& shape) {
  std::int64_t rows = 1;
  for (std::size_t d = 1; d + 1 < shape.rank(); ++d) rows *= shape[d];
  return rows;
}

// The rows of a matrix's memory that one PE reads or writes, in the order of rows.
struct ReadRows {
  std::vector<tl::RowBlock> blocks;
  bool are_own = true;  // they lie on the PE itself

  const tl::Pointer& first() const { return blocks.front().pointer; }
  std::vector<tl::RowBlock> further() const { return {std::next(blocks.begin()), blocks.end()}; }
};

// A factor as it lies on the PEs of its device.  A row of its memory is a row of the factor, or, of
// a turned view, a column.
class SpreadFactor {
 public:
  SpreadFactor(std::string_view name, const Tensor& factor, bool is_transposed) {
    check_is_whole(name, factor);
    const Placement placement = placement_of(factor);
    const std::size_t last = factor.shape().rank() - 1;
    const auto cuts = [&](std::size_t dimension) {
      return placement.cube == cut(dimension) || placement.pe == cut(dimension);
    };
    const auto& shards = factor.shards();
    const bool is_turned = cuts(last) || std::ranges::any_of(shards, [](const ShardInfo& shard) {
                             return shard.shape.numel() > 0 && make_layout(shard, true)->is_turned;
                           });
    bool has_cut_rows = is_turned && cuts(0);
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (shards[i].shape.numel() == 0) continue;
      const MatrixLayout layout = *make_layout(shards[i], true, is_turned);
      has_cut_rows = has_cut_rows || layout.is_turned != is_turned;
      pitch_ = std::max(pitch_, layout.pitch);
      held_.push_back({is_turned ? shards[i].offset[last]
                                 : shards[i].offset[0] * rows_per_index(factor.shape()),
                       is_turned ? layout.columns : layout.rows,
                       {shards[i].sip, shards[i].cube, shards[i].pe},
                       {factor.storage()->buffers()[i], factor.name()}});
    }
    if (has_cut_rows) {
      refuse_placement(name, factor,
                       "PEs read rows of each other's memory, and these are cut within");
    }
    is_transposed_ = is_transposed != is_turned;
    std::ranges::stable_sort(held_, {}, &Held::begin);
  }

  bool is_transposed() const { return is_transposed_; }
  std::int64_t pitch() const { return pitch_; }

  // The rows [begin, end) of memory, from `column` on, for a PE.  Of copies it reads the nearest.
  ReadRows rows_for(const sim::PeLocation& pe, std::int64_t begin, std::int64_t end,
                    std::int64_t column) const {
    ReadRows read;
    auto copies = std::prev(std::ranges::upper_bound(held_, begin, {}, &Held::begin));
    for (std::int64_t row = begin; row < end;) {
      const auto [first, last] = std::ranges::equal_range(held_, copies->begin, {}, &Held::begin);
      const Held& held = *std::ranges::min_element(
          first, last, {}, [&](const Held& copy) { return distance(pe, copy.home); });
      read.blocks.push_back({row - begin, held.data + (row - held.begin) * pitch_ + column});
      read.are_own = read.are_own && held.home == pe;
      row = held.begin + held.count;
      copies = last;
    }
    return read;
  }

 private:
  struct Held {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    sim::PeLocation home;
    tl::Pointer data;
  };

  static int distance(const sim::PeLocation& from, const sim::PeLocation& to) {
    return from == to ? 0 : from.cube == to.cube ? 1 : 2;
  }

  std::vector<Held> held_;  // by their begin; copies of the same rows lie beside each other
  std::int64_t pitch_ = 0;
  bool is_transposed_ = false;
};

// How the PEs of a cube cut its part of c: into `along_rows` x `along_columns` pieces of this size.
struct Grid {
  std::int64_t along_rows = 1;
  std::int64_t along_columns = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
};

// A piece of at least a fold of the array, or of whole folds.
std::int64_t piece_of(std::int64_t size, std::int64_t count, std::int64_t fold) {
  const std::int64_t even = sim::ceil_divide(size, count);
  return std::min(size, sim::ceil_divide(even, fold) * fold);
}

// Chooses the grid whose pieces take the array the fewest folds, and of these the one whose pieces
// need the fewest rows and columns of the factors.
Grid choose_grid(std::int64_t rows, std::int64_t columns, int pes, const GemmSpec& array) {
  const auto cost = [&](const Grid& grid) {
    return std::pair(
        sim::ceil_divide(grid.height, array.rows) * sim::ceil_divide(grid.width, array.columns),
        grid.height + grid.width);
  };
  std::optional<Grid> best;
  for (std::int64_t along_rows = 1; along_rows <= pes; ++along_rows) {
    const std::int64_t height = piece_of(rows, along_rows, array.rows);
    const std::int64_t width = piece_of(columns, pes / along_rows, array.columns);
    const Grid grid{sim::ceil_divide(rows, height), sim::ceil_divide(columns, width), height,
                    width};
    if (!best || cost(grid) < cost(*best)) best = grid;
  }
  return *best;
}

// PEs that compute rows of c together: those of a cube among which the rows are cut, or one PE.
struct Team {
  std::vector<sim::PeLocation> pes;
  std::int64_t row = 0;  // the first of its rows of c
  std::int64_t rows = 0;
  Grid grid = {};
};

// A product as all PEs of the launch see it: where its matrices lie, and who computes what.
struct SpreadProduct {
  SpreadFactor a;
  SpreadFactor b;
  SpreadFactor c;
  std::vector<Team> teams;
  bool has_cut_rows = false;  // teams compute different rows of c
};

std::vector<Team> find_teams(const Tensor& c) {
  const bool share_rows = placement_of(c).pe.is_cut();
  const std::int64_t per_index = rows_per_index(c.shape());
  std::vector<Team> teams;
  for (const ShardInfo& shard : c.shards()) {
    if (shard.shape.numel() == 0) continue;
    const bool joins = share_rows && !teams.empty() && teams.back().pes.front().cube == shard.cube;
    if (!joins) teams.push_back({{}, shard.offset[0] * per_index});
    Team& team = teams.back();
    team.pes.push_back({shard.sip, shard.cube, shard.pe});
    team.rows += shard.shape[0] * per_index;
  }
  const GemmSpec& array = c.storage()->simulation->machine().topology().pe.gemm;
  for (Team& team : teams) {
    team.grid = choose_grid(team.rows, c.size(-1), static_cast<int>(std::ssize(team.pes)), array);
  }
  return teams;
}

SpreadProduct make_product(const Tensor& c, const GemmOperands& operands) {
  const std::string_view name = operands.name();
  const Placement placement = placement_of(c);
  return {{name, operands.a, operands.transpose_a},
          {name, operands.b, operands.transpose_b},
          {name, c, false},
          find_teams(c),
          placement.cube.is_cut() || placement.pe.is_cut()};
}

// The PEs that read the same rows of memory: those of a team, and of all teams if they read the
// same.
tl::CompositeGemm::Readers count_readers(const SpreadProduct& product, const ReadRows& read,
                                         std::int64_t in_team, bool is_same_for_teams) {
  const int of_one = static_cast<int>(in_team);
  const auto teams = static_cast<int>(std::ssize(product.teams));
  const int of_all = is_same_for_teams ? of_one * teams : of_one;
  return read.are_own || of_all == 1 ? tl::CompositeGemm::Readers{}
                                     : tl::CompositeGemm::Readers{of_one, of_all};
}

void multiply(tl::Context& tl, const Tensor& c, const GemmOperands& operands,
              const SpreadProduct& product) {
  const sim::PeLocation& pe = tl.location();
  const Team& team = *std::ranges::find_if(product.teams, [&](const Team& each) {
    return std::ranges::find(each.pes, pe) != each.pes.end();
  });
  const Grid& grid = team.grid;
  const std::int64_t index = std::ranges::find(team.pes, pe) - team.pes.begin();
  if (index >= grid.along_rows * grid.along_columns) return;
  const std::int64_t row = index / grid.along_columns * grid.height;
  const std::int64_t column = index % grid.along_columns * grid.width;
  const std::int64_t m = std::min(grid.height, team.rows - row);
  const std::int64_t n = std::min(grid.width, c.size(-1) - column);
  const std::int64_t k = operands.depth();
  const std::int64_t first_row = team.row + row;
  const ReadRows a = product.a.is_transposed()
                         ? product.a.rows_for(pe, 0, k, first_row)
                         : product.a.rows_for(pe, first_row, first_row + m, 0);
  const ReadRows b = product.b.is_transposed() ? product.b.rows_for(pe, column, column + n, 0)
                                               : product.b.rows_for(pe, 0, k, column);
  const ReadRows into = product.c.rows_for(pe, first_row, first_row + m, column);
  tl::CompositeGemm gemm{
      .a = a.first(),
      .b = b.first(),
      .c = into.first(),
      .m = m,
      .n = n,
      .k = k,
      .a_pitch = product.a.pitch(),
      .b_pitch = product.b.pitch(),
      .c_pitch = product.c.pitch(),
      .scale = operands.alpha,
      .a_further = a.further(),
      .b_further = b.further(),
      .c_further = into.further(),
      .a_readers = count_readers(product, a, grid.along_columns, !product.has_cut_rows),
      .b_readers = count_readers(product, b, grid.along_rows, true),
      .transpose_a = product.a.is_transposed(),
      .transpose_b = product.b.is_transposed()};
  if (operands.bias.defined()) gemm.bias = local_part(operands.bias, tl).data + column;
  tl.composite(gemm);
}

}  // namespace

void gemm_across_pes(const Tensor& c, const GemmOperands& operands) {
  std::vector<Tensor> uses = {operands.a, operands.b};
  if (operands.bias.defined()) uses.push_back(operands.bias);
  launch_on_views(
      operands.name(), {c}, uses,
      [c, operands, product = std::make_shared<const SpreadProduct>(make_product(c, operands))](
          tl::Context& tl) { multiply(tl, c, operands, *product); });
}

}  // namespace kernbench::ops
