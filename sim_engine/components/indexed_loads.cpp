// Loads of rows that values choose.

#include <algorithm>
#include <vector>

#include "sim_engine/components/kernel_run.h"
#include "sim_engine/components/math_timing.h"

namespace kernbench::sim {

namespace {

std::vector<Value> present_values(MemoryStore& memory, std::span<const HbmPart> blocks) {
  std::vector<Value> values;
  for (const HbmPart& block : blocks) {
    values.push_back(memory.load(block.buffer.region, block.elements));
  }
  return values;
}

// How many of `count` rows come from each of so many blocks: evenly, from block `first` on.
std::vector<std::int64_t> spread(std::int64_t count, std::size_t blocks, std::size_t first) {
  std::vector<std::int64_t> rows(blocks, count / static_cast<std::int64_t>(blocks));
  const auto left = static_cast<std::size_t>(count) % blocks;
  for (std::size_t i = 0; i < left; ++i) ++rows[(first + i * blocks / left) % blocks];
  return rows;
}

}  // namespace

std::vector<Tile> KernelRun::load_chosen(std::span<const HbmPart> blocks, const Tile& indices,
                                         std::int64_t columns, std::int64_t count) {
  PeServices& services = pe_.services();
  const PeLocation& own = pe_.location();
  const auto first = static_cast<std::size_t>(own.cube * services.topology.pe_count() + own.pe);
  const std::vector<std::int64_t> rows = spread(count, blocks.size(), first);
  std::vector<Tile> parts;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (rows[i] == 0) continue;
    const DeviceBuffer& buffer = blocks[i].buffer;
    Command& command = issue_next();
    const Tile part = services.tiles.make(buffer.dtype, rows[i] * columns, &account());
    command.result = part;
    command.bytes = part->bytes;
    const MemoryUse use{buffer.region, blocks[i].elements.simplified(), false};
    command.work = work::Load{{{buffer, use.elements}, id_}};
    work::Load& load = std::get<work::Load>(command.work);
    load.chosen_rows = rows[i];
    hazards_.push_back(indices);  // the addresses follow from them
    submit(command, use, load.noted);
    parts.push_back(part);
  }
  return parts;
}

Tile KernelRun::index_select(std::span<const HbmPart> blocks, const Tile& indices,
                             const IndexedRows& rows) {
  PeServices& services = pe_.services();
  const std::int64_t count = indices->element_count;
  const Value value =
      services.memory.index_select(indices->value, present_values(services.memory, blocks), rows);
  const std::vector<Tile> parts = load_chosen(blocks, indices, rows.columns, count);
  const Tile whole = services.tiles.make_view(value.dtype(), count * rows.columns, parts);
  whole->value = value;
  return whole;
}

Tile KernelRun::index_add(std::span<const HbmPart> blocks, const Tile& indices,
                          const IndexedRows& rows, std::int64_t expected) {
  PeServices& services = pe_.services();
  const Topology::Pe& pe = services.topology.pe;
  const Value value = services.memory.index_add(
      indices->value, present_values(services.memory, blocks), rows, DType::f32);
  const std::int64_t loaded = expected * rows.columns;
  const std::vector<Tile> parts = load_chosen(blocks, indices, rows.columns, expected);
  Command& command = issue_next();
  command.operands = {
      services.tiles.make_view(blocks.front().buffer.dtype, loaded, parts), indices, {}};
  // It writes zeros, and adds the rows that have come.
  const std::int64_t cycles = math_cycles(pe, MathOp::convert, rows.count * rows.columns) +
                              math_cycles(pe, MathOp::add, loaded);
  return submit_math(command, value, {cycles, "index_add"});
}

}  // namespace kernbench::sim
