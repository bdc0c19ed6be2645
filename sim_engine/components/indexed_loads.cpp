// Loads of rows that values choose.

#include <algorithm>
#include <utility>
#include <vector>

#include "sim_engine/components/kernel_run.h"
#include "sim_engine/components/math_timing.h"

namespace kernbench::sim {

namespace {

// How many of `count` rows come from each of so many blocks: evenly, from block `first` on.
std::vector<std::int64_t> spread(std::int64_t count, std::size_t blocks, std::size_t first) {
  std::vector<std::int64_t> rows(blocks, count / static_cast<std::int64_t>(blocks));
  const auto left = static_cast<std::size_t>(count) % blocks;
  for (std::size_t i = 0; i < left; ++i) ++rows[(first + i * blocks / left) % blocks];
  return rows;
}

}  // namespace

// Loads `rows` rows of the first one of these blocks.  Of the others no row counts for time, but
// they too are read when the load begins.
void KernelRun::load_chosen(std::span<const HbmPart> blocks, std::span<const std::size_t> of_load,
                            std::int64_t rows, const Tile& indices, std::int64_t columns,
                            ChosenRows& chosen) {
  PeServices& services = pe_.services();
  MemoryOrder& order = services.memory_order;
  const HbmPart& first = blocks[of_load.front()];
  work::Load load{{first, id_}};
  load.chosen_rows = rows;
  std::vector<MemoryUse> uses;
  for (const std::size_t block : of_load) {
    const HbmPart& part = blocks[block];
    chosen.blocks[block] = services.memory.declare(part.buffer.dtype, part.elements.count());
    load.blocks.push_back({part, chosen.blocks[block]});
    uses.push_back({part.buffer.region, part.elements.simplified(), false});
    find_hazards(uses.back());
  }
  hazards_.push_back(indices);  // the addresses follow from them

  Command& command = issue_next();
  const Tile tile = services.tiles.make(first.buffer.dtype, rows * columns, &account());
  command.result = tile;
  command.bytes = tile->bytes;
  command.work = std::move(load);
  auto& under_way = std::get<work::Load>(command.work).blocks;
  submit(command);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    order.note(accesses_, uses[i], command, under_way[i].noted);
  }
  chosen.tiles.push_back(tile);
}

KernelRun::ChosenRows KernelRun::load_chosen(std::span<const HbmPart> blocks, const Tile& indices,
                                             std::int64_t columns, std::int64_t count) {
  const PeLocation& own = pe_.location();
  const auto first =
      static_cast<std::size_t>(own.cube * pe_.services().topology.pe_count() + own.pe);
  const std::vector<std::int64_t> rows = spread(count, blocks.size(), first);
  std::vector<std::size_t> without_rows;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (rows[i] == 0) without_rows.push_back(i);
  }
  ChosenRows chosen{{}, std::vector<Value>(blocks.size())};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (rows[i] == 0) continue;
    std::vector<std::size_t> of_load{i};
    if (chosen.tiles.empty()) {
      of_load.insert(of_load.end(), without_rows.begin(), without_rows.end());
    }
    load_chosen(blocks, of_load, rows[i], indices, columns, chosen);
  }
  return chosen;
}

Tile KernelRun::index_select(std::span<const HbmPart> blocks, const Tile& indices,
                             const IndexedRows& rows) {
  PeServices& services = pe_.services();
  const std::int64_t count = indices->element_count;
  const ChosenRows chosen = load_chosen(blocks, indices, rows.columns, count);
  const Tile whole =
      services.tiles.make_view(blocks.front().buffer.dtype, count * rows.columns, chosen.tiles);
  whole->value = services.memory.index_select(indices->value, chosen.blocks, rows);
  return whole;
}

Tile KernelRun::index_add(std::span<const HbmPart> blocks, const Tile& indices,
                          const IndexedRows& rows, std::int64_t expected) {
  PeServices& services = pe_.services();
  const Topology::Pe& pe = services.topology.pe;
  const std::int64_t loaded = expected * rows.columns;
  const ChosenRows chosen = load_chosen(blocks, indices, rows.columns, expected);
  const Value value = services.memory.index_add(indices->value, chosen.blocks, rows, DType::f32);
  Command& command = issue_next();
  command.operands = {
      services.tiles.make_view(blocks.front().buffer.dtype, loaded, chosen.tiles), indices, {}};
  // It writes zeros, and adds the rows that have come.
  const std::int64_t cycles = math_cycles(pe, MathOp::convert, rows.count * rows.columns) +
                              math_cycles(pe, MathOp::add, loaded);
  work::Math math{cycles, "index_add"};
  if (services.work != nullptr) {
    math.lane_operations = count_lane_operations(pe, MathOp::convert, rows.count * rows.columns) +
                           count_lane_operations(pe, MathOp::add, loaded);
  }
  return submit_math(command, value, math);
}

}  // namespace kernbench::sim
