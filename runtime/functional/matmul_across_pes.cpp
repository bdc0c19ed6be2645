#include "runtime/functional/matmul_across_pes.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/functional/spread_matrix.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/ceil_divide.h"

namespace kernbench::ops {

namespace {

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
  SpreadMatrix a;
  SpreadMatrix b;
  SpreadMatrix c;
  std::vector<Team> teams;
  MatrixRows depth;             // of those summed over
  bool has_cut_rows = false;  // teams compute different rows of c
};

// Leaves each team its rows of these, and no team without rows.
void clip(std::vector<Team>& teams, const MatrixRows& rows) {
  for (Team& team : teams) {
    const std::int64_t end = std::min(team.row + team.rows, rows.end);
    team.row = std::max(team.row, rows.begin);
    team.rows = std::max<std::int64_t>(end - team.row, 0);
  }
  std::erase_if(teams, [](const Team& team) { return team.rows == 0; });
}

// The teams that compute these rows of c.
std::vector<Team> find_teams(const Tensor& c, const MatrixRows& rows) {
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
  clip(teams, rows);
  const GemmSpec& array = c.storage()->simulation->machine().topology().pe.gemm;
  for (Team& team : teams) {
    team.grid = choose_grid(team.rows, c.size(-1), static_cast<int>(std::ssize(team.pes)), array);
  }
  return teams;
}

MatrixRows all_rows(const Tensor& matrix) {
  return {0, matrix.numel() / std::max<std::int64_t>(matrix.size(-1), 1)};
}

SpreadProduct make_product(std::string_view name, const GemmOfRows& of) {
  const auto& [c, operands, rows] = of;
  const bool sums_over_rows = operands.transpose_a;
  const Placement placement = placement_of(c);
  check_is_whole(name, operands.a);
  check_is_whole(name, operands.b);
  return {{name, operands.a, operands.transpose_a},
          {name, operands.b, operands.transpose_b},
          {name, c, false},
          find_teams(c, sums_over_rows ? all_rows(c) : rows),
          sums_over_rows ? rows : MatrixRows{0, operands.depth()},
          placement.cube.is_cut() || placement.pe.is_cut()};
}

// The PEs that read the same rows of memory: those of a team, and of all teams if they read the
// same.
tl::CompositeGemm::Readers count_readers(const SpreadProduct& product, const OperandRows& read,
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
  const auto found = std::ranges::find_if(product.teams, [&](const Team& each) {
    return std::ranges::find(each.pes, pe) != each.pes.end();
  });
  if (found == product.teams.end()) return;
  const Team& team = *found;
  const Grid& grid = team.grid;
  const std::int64_t index = std::ranges::find(team.pes, pe) - team.pes.begin();
  if (index >= grid.along_rows * grid.along_columns) return;
  const std::int64_t row = index / grid.along_columns * grid.height;
  const std::int64_t column = index % grid.along_columns * grid.width;
  const std::int64_t m = std::min(grid.height, team.rows - row);
  const std::int64_t n = std::min(grid.width, c.size(-1) - column);
  const auto& [first, last] = product.depth;
  const std::int64_t first_row = team.row + row;
  const OperandRows a = product.a.is_transposed()
                            ? product.a.operand_rows_for(pe, first, last, first_row)
                            : product.a.operand_rows_for(pe, first_row, first_row + m, 0);
  const OperandRows b = product.b.is_transposed()
                            ? product.b.operand_rows_for(pe, column, column + n, 0)
                            : product.b.operand_rows_for(pe, first, last, column);
  const OperandRows into = product.c.operand_rows_for(pe, first_row, first_row + m, column);
  tl::CompositeGemm gemm{
      .a = a.first,
      .b = b.first,
      .c = into.first,
      .m = m,
      .n = n,
      .k = product.depth.count(),
      .a_pitch = product.a.pitch(),
      .b_pitch = product.b.pitch(),
      .c_pitch = product.c.pitch(),
      .scale = operands.alpha,
      .a_further = a.further,
      .b_further = b.further,
      .c_further = into.further,
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
  const GemmOfRows whole{c, operands,
                         operands.transpose_a ? MatrixRows{0, operands.depth()} : all_rows(c)};
  const auto product = std::make_shared<const SpreadProduct>(make_product(operands.name(), whole));
  launch_on_views(operands.name(), {c}, uses,
                  [=](tl::Context& tl) { multiply(tl, c, operands, *product); });
}

void gemms_across_pes(std::string_view name, const std::vector<GemmOfRows>& products) {
  std::vector<Tensor> results;
  std::vector<Tensor> uses;
  auto spread = std::make_shared<std::vector<SpreadProduct>>();
  for (const GemmOfRows& of : products) {
    results.push_back(of.c);
    uses.insert(uses.end(), {of.operands.a, of.operands.b});
    spread->push_back(make_product(name, of));
  }
  launch_on_views(name, results, uses, [=](tl::Context& tl) {
    for (std::size_t i = 0; i < products.size(); ++i) {
      multiply(tl, products[i].c, products[i].operands, (*spread)[i]);
    }
  });
}

}  // namespace kernbench::ops
