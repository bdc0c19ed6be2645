#include "benches/gemm/gemm_run.h"

#include <memory>
#include <ranges>
#include <tuple>
#include <utility>

#include "benches/gemm/exact_product.h"
#include "benches/gemm/gemm_placement.h"
#include "runtime/launch/kernel_launch.h"
#include "runtime/simulation/simulation.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/profiler.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/gemm_array.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/components/tile_choices.h"
#include "sim_engine/components/tile_estimate.h"
#include "sim_engine/components/tile_pipeline.h"

namespace kernbench::benches::gemm {

namespace {

using sim::GemmSize;
using sim::PeLocation;

struct OnSip {
  Block part;
  Tensor a;
  Tensor b;
  Tensor c;
};

// The HBM needed on a slice: a cube's part of a and b, and c's shares of the PEs of the slice.
Wide bytes_on_slice(const Topology& topology, const GemmLevels& levels, const GemmInput& input) {
  GemmSize part = input.size;
  const auto cut = [&](const Level& level) {
    std::int64_t& side = level.cut == Shard::row_wise ? part.m : part.n;
    side = sim::ceil_divide(side, level.holders);
  };
  cut(levels.sips);
  const Wide operands = Wide{sim::ceil_divide(part.m, levels.cubes.holders)} * part.k +
                        Wide{sim::ceil_divide(levels.cubes.cut == Shard::row_wise ? part.k : part.n,
                                              levels.cubes.holders)} *
                            (levels.cubes.cut == Shard::row_wise ? part.n : part.k);
  cut(levels.cubes);
  const int slices = std::min(sim::Routing::hbm_slice_count(topology), levels.operand_pes);
  return (operands * size_of(input.dtype) + Wide{part.m} * part.n * size_of(input.dtype_of_c())) /
         slices;
}

// Checks the capacity before any memory is allocated.
void check_capacity(const Topology& topology, const GemmLevels& levels, const GemmInput& input) {
  const Bytes capacity = topology.cube.hbm.capacity / sim::Routing::hbm_slice_count(topology);
  const Wide needed = bytes_on_slice(topology, levels, input);
  if (needed <= capacity) return;
  const auto& [m, n, k] = input.size;
  throw DeviceError(
      "KB-M010",
      "out of HBM: a [{}, {}], b [{}, {}] and c [{}, {}] of {} on {} PE{} need {:.4g} GiB in a "
      "slice of HBM, which has {:.4g} GiB; take more PEs or smaller sizes",
      m, k, k, n, m, n, name_of(input.dtype), levels.pe_count(), levels.pe_count() == 1 ? "" : "s",
      static_cast<double>(needed) / (1 << 30), static_cast<double>(capacity) / (1 << 30));
}

// One product on its devices.
class DistributedGemm {
 public:
  DistributedGemm(RuntimeContext& torch, const GemmInput& input)
      : torch_(torch), input_(input), levels_(cut_levels(torch.topology(), input)) {
    check_capacity(torch.topology(), levels_, input);
    for (int sip = 0; sip < levels_.sips.holders; ++sip) make_tensors(sip);
    find_shares();
  }

  const GemmLevels& levels() const { return levels_; }
  const std::vector<GemmShare>& shares() const { return shares_; }
  // The time by the recurrence that chooses tiles.
  Time estimate() const;

  void bring(const ExactProduct& product);
  void launch();
  std::int64_t count_wrong(const ExactProduct& product) const;

 private:
  void make_tensors(int sip);
  void find_shares();
  sim::CompositePlan make_plan() const;
  sim::WaysOfTiles find_ways() const;
  GemmSize choose_tile() const;
  tl::CompositeGemm::Readers count_readers(const GemmShare& share,
                                           std::int64_t GemmShare::*begin) const;
  void multiply(tl::Context& tl) const;

  RuntimeContext& torch_;
  const GemmInput& input_;
  const GemmLevels levels_;
  std::vector<OnSip> sips_;  // by SIP
  std::vector<GemmShare> shares_;
};

// Allocates the tensors on the device; the host holds no elements.
void DistributedGemm::make_tensors(int sip) {
  const Block part = cut_for_sip(levels_, input_.size, sip);
  const GemmPolicies policies = make_policies(levels_);
  torch_.ahbm.set_device(sip);
  const auto make = [&](const Shape& shape, DType dtype, const DPPolicy& dp, const char* name) {
    return torch_.empty(shape, {.dtype = dtype, .dp = dp, .name = name});
  };
  const std::int64_t k = input_.size.k;
  sips_.push_back({part, make({part.rows, k}, input_.dtype, policies.a, "a"),
                   make({k, part.columns}, input_.dtype, policies.b, "b"),
                   make({part.rows, part.columns}, input_.dtype_of_c(), policies.c, "c")});
}

// All shares take the tile of the largest one, so that PEs that share an operand ask for the same
// tiles.
void DistributedGemm::find_shares() {
  for (const OnSip& on : sips_) {
    for (std::size_t i = 0; i < on.c.shards().size(); ++i) {
      const ShardInfo& c = on.c.shards()[i];
      if (c.shape.numel() == 0) continue;
      shares_.push_back({.pe = {c.sip, c.cube, c.pe},
                         .size = {c.shape[0], c.shape[1], input_.size.k},
                         .row = c.offset[0],
                         .column = c.offset[1],
                         .a = on.a.shards().front().address,
                         .b = on.b.shards().front().address,
                         .c = c.address});
    }
  }
  const GemmSize tile = choose_tile();
  for (GemmShare& share : shares_) {
    share.tile = {std::min(tile.m, share.size.m), std::min(tile.n, share.size.n),
                  std::min(tile.k, share.size.k)};
  }
}

// The blocks that hold `rows` of an operand from `row` on, in columns from `column` on.  All of
// them are equally wide, since only cubes cut columns.
struct OperandBlocks {
  struct Block {
    std::int64_t row = 0;
    tl::Pointer pointer;
    PeLocation home;
  };
  std::vector<Block> blocks = {};
  std::int64_t pitch = 0;

  const tl::Pointer& first() const { return blocks.front().pointer; }
  std::vector<tl::RowBlock> further() const {
    std::vector<tl::RowBlock> found;
    for (const Block& block : blocks | std::views::drop(1)) {
      found.push_back({block.row, block.pointer});
    }
    return found;
  }
};

OperandBlocks find_blocks(const Tensor& operand, std::int64_t row, std::int64_t rows,
                          std::int64_t column) {
  OperandBlocks found;
  for (const ShardInfo& shard : operand.shards()) {
    const std::int64_t first = std::max(row, shard.offset[0]);
    const bool has_rows = first < std::min(row + rows, shard.offset[0] + shard.shape[0]);
    const bool has_columns = shard.offset[1] <= column && column < shard.offset[1] + shard.shape[1];
    if (!has_rows || !has_columns) continue;
    const std::int64_t at = (first - shard.offset[0]) * shard.shape[1] + column - shard.offset[1];
    const PeLocation home{shard.sip, shard.cube, shard.pe};
    found.blocks.push_back({first - row, RuntimeContext::pointer_to(operand, home) + at, home});
    found.pitch = shard.shape[1];
  }
  std::ranges::sort(found.blocks, {}, &OperandBlocks::Block::row);
  return found;
}

// Returns an operand's place as far as the choice of a tile depends on it: which of its blocks lie
// in one slice of HBM.
sim::OperandAt place_of(const Topology& topology, const OperandBlocks& operand) {
  const auto slice_of = [&](const PeLocation& home) {
    return std::tuple(home.sip, home.cube, sim::Routing::hbm_slice_of(topology, home.pe));
  };
  auto further = std::make_shared<sim::FurtherBlocks>();
  for (std::size_t i = 1; i < operand.blocks.size(); ++i) {
    sim::MatrixAt block;
    block.joins_previous = slice_of(operand.blocks[i].home) == slice_of(operand.blocks[i - 1].home);
    further->blocks.push_back({operand.blocks[i].row, block});
  }
  sim::OperandAt place;
  place.list = std::move(further);
  return place;
}

// The composite of the first share, which no other one exceeds, as far as its time depends on it.
sim::CompositePlan DistributedGemm::make_plan() const {
  const Topology& topology = torch_.topology();
  sim::CompositePlan plan;
  plan.size = shares_.front().size;
  const GemmShare& share = shares_.front();
  const OnSip& on = sips_[static_cast<std::size_t>(share.pe.sip)];
  plan.a = place_of(topology, find_blocks(on.a, share.row, share.size.m, 0));
  plan.b = place_of(topology, find_blocks(on.b, 0, share.size.k, share.column));
  plan.a.buffer.dtype = plan.b.buffer.dtype = input_.dtype;
  plan.c.buffer.dtype = input_.dtype_of_c();
  const auto readers_of = [&](std::int64_t GemmShare::*begin) -> sim::OperandAt::Readers {
    const auto [in_cube, in_launch] = count_readers(share, begin);
    return {in_cube, in_launch};
  };
  plan.a.readers = readers_of(&GemmShare::row);
  plan.b.readers = readers_of(&GemmShare::column);
  return plan;
}

sim::WaysOfTiles DistributedGemm::find_ways() const {
  const Topology& topology = torch_.topology();
  std::vector<PeLocation> pes;
  for (const GemmShare& one : shares_) pes.push_back(one.pe);
  return sim::find_ways_of_tiles(topology, simulation_of(torch_).machine().fabric(), pes.front(),
                                 pes.front(), sim::Routing::count_sharers(topology, pes));
}

// The tile that tl.composite would choose for the first share.
GemmSize DistributedGemm::choose_tile() const {
  const Topology::Pe& pe = torch_.topology().pe;
  return sim::choose_tile(make_plan(), input_.tile, pe, find_ways(), pe.tcm.capacity)
      .value_or(input_.tile);
}

Time DistributedGemm::estimate() const {
  sim::CompositePlan plan = make_plan();
  plan.tile = shares_.front().tile;
  return Time{
      static_cast<std::int64_t>(sim::estimate_time(plan, torch_.topology().pe, find_ways()))};
}

void DistributedGemm::bring(const ExactProduct& product) {
  const std::int64_t k = input_.size.k;
  for (OnSip& on : sips_) {
    const Block& part = on.part;
    if (part.rows == 0 || part.columns == 0) continue;
    on.a.copy_(RuntimeContext::tensor(product.rows_of_a(part.row, part.rows), {part.rows, k}));
    on.b.copy_(
        RuntimeContext::tensor(product.columns_of_b(part.column, part.columns), {k, part.columns}));
  }
}

void DistributedGemm::launch() {
  runtime::Simulation& simulation = simulation_of(torch_);
  runtime::LaunchRequest request{.name = "gemm", .pes = {}, .body = {}, .uses = {}};
  for (const GemmShare& share : shares_) request.pes.push_back(share.pe);
  for (const OnSip& on : sips_) request.uses.insert(request.uses.end(), {on.a, on.b, on.c});
  request.body = [this](tl::Context& tl) { multiply(tl); };
  request.operation = simulation.next_operation();
  simulation.begin(request.operation);
  runtime::launch(simulation, std::move(request));
}

// The PEs of the share's SIP whose shares begin at the same row, or column, and so have the same
// rows of a, or columns of b.  A PE alone takes its tiles from HBM.
tl::CompositeGemm::Readers DistributedGemm::count_readers(const GemmShare& share,
                                                          std::int64_t GemmShare::*begin) const {
  tl::CompositeGemm::Readers readers;
  if (shares_.size() == 1) return readers;
  for (const GemmShare& other : shares_) {
    if (other.pe.sip != share.pe.sip || other.*begin != share.*begin) continue;
    ++readers.in_launch;
    if (other.pe.cube == share.pe.cube) ++readers.in_cube;
  }
  return readers;
}

void DistributedGemm::multiply(tl::Context& tl) const {
  const PeLocation& pe = tl.location();
  const OnSip& on = sips_[static_cast<std::size_t>(pe.sip)];
  const GemmShare& share = *std::ranges::find(shares_, pe, &GemmShare::pe);
  const OperandBlocks a = find_blocks(on.a, share.row, share.size.m, 0);
  const OperandBlocks b = find_blocks(on.b, 0, share.size.k, share.column);
  tl.composite({.a = a.first(),
                .b = b.first(),
                .c = RuntimeContext::pointer_to(on.c, pe),
                .m = share.size.m,
                .n = share.size.n,
                .k = share.size.k,
                .a_pitch = a.pitch,
                .b_pitch = b.pitch,
                .tile_m = share.tile.m,
                .tile_n = share.tile.n,
                .tile_k = share.tile.k,
                .a_further = a.further(),
                .b_further = b.further(),
                .a_readers = count_readers(share, &GemmShare::row),
                .b_readers = count_readers(share, &GemmShare::column)});
}

std::int64_t DistributedGemm::count_wrong(const ExactProduct& product) const {
  std::int64_t wrong = 0;
  for (const OnSip& on : sips_) {
    for (std::size_t i = 0; i < on.c.shards().size(); ++i) {
      const ShardInfo& shard = on.c.shards()[i];
      if (shard.shape.numel() == 0) continue;
      wrong += product.count_wrong(on.c.shard_to_vector(i), on.part.row + shard.offset[0],
                                   on.part.column + shard.offset[1], shard.shape[1]);
    }
  }
  return wrong;
}

// The time from the first PE's start to the last one's end.
Time time_launch(RuntimeContext& torch) {
  const auto& results = torch.engine().last_results();
  if (results.empty()) return Time{0};
  const Time start = std::ranges::min(results, {}, &runtime::KernelResult::start).start;
  const Time end = std::ranges::max(results, {}, &runtime::KernelResult::end).end;
  profiler::timed(torch, "product", start, end);
  return end - start;
}

Time spread_of_starts(const std::vector<runtime::KernelResult>& results) {
  if (results.empty()) return Time{0};
  const auto [first, last] = std::ranges::minmax(results, {}, &runtime::KernelResult::start);
  return last.start - first.start;
}

}  // namespace

GemmRow run_gemm(RuntimeContext& torch, const GemmInput& input) {
  const Topology& topology = torch.topology();
  DistributedGemm gemm(torch, input);
  GemmRow row;
  row.input = input;
  row.dataflow = topology.pe.gemm.dataflow;
  row.cut = describe(gemm.levels());
  row.pes = count_allowed_pes(topology, input.placement);
  row.shares = gemm.shares();
  row.tile = row.shares.front().tile;
  add_bounds(row, topology, gemm.levels());

  std::optional<ExactProduct> product;
  if (torch.options().data) product.emplace(input.size, input.dtype_of_c(), input.seed);
  if (product) gemm.bring(*product);
  gemm.launch();
  const EngineView engine = torch.engine();
  row.time = time_launch(torch);
  row.estimate = gemm.estimate();  // of a tile that fits, which the launch has checked
  row.start_spread = spread_of_starts(engine.last_results());
  row.window = engine.composite_window();
  row.gemm_count = engine.op_log().count(sim::OpKind::gemm);
  row.hbm_loaded = engine.hbm_bytes_loaded();
  row.hbm_stored = engine.hbm_bytes_stored();
  if (product) row.wrong = gemm.count_wrong(*product);
  return row;
}

}  // namespace kernbench::benches::gemm
