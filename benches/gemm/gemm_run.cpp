#include "benches/gemm/gemm_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benches/gemm/exact_product.h"
#include "runtime/launch/kernel_launch.h"
#include "runtime/simulation/simulation.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/gemm_array.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/components/tile_choices.h"

namespace kernbench::benches::gemm {

namespace {

using sim::GemmSize;
using sim::PeLocation;

// A level of the hardware: the number of its holders, and how they cut c.
struct Level {
  std::string_view name;
  int holders = 1;
  Shard cut = Shard::row_wise;
};

struct GemmLevels {
  Level sips{.name = "sip"};
  Level cubes{.name = "cube"};
  Level pes{.name = "pe"};

  int pe_count() const { return sips.holders * cubes.holders * pes.holders; }
};

// Cuts the longer side of what is left, unless the placement says otherwise.
GemmLevels cut_levels(const Topology& topology, const GemmPlacement& placement,
                      const GemmSize& size) {
  const GemmOn on = placement.on;
  const int pes = placement.pes == 0 ? topology.pe_count() : placement.pes;
  GemmLevels levels;
  levels.sips.holders = on == GemmOn::all ? topology.system.sip_count : 1;
  levels.cubes.holders = on == GemmOn::all || on == GemmOn::sip ? topology.cube_count() : 1;
  levels.pes.holders = on == GemmOn::pe ? 1 : pes;
  GemmSize left = size;
  const auto cut = [&](Level& level, const std::optional<Shard>& wanted) {
    level.cut = wanted.value_or(left.m >= left.n ? Shard::row_wise : Shard::column_wise);
    std::int64_t& side = level.cut == Shard::row_wise ? left.m : left.n;
    side = sim::ceil_divide(side, level.holders);
  };
  cut(levels.sips, placement.sip);
  cut(levels.cubes, placement.cube);
  cut(levels.pes, placement.pe);
  return levels;
}

std::string describe(const GemmLevels& levels) {
  std::vector<std::string> texts;
  for (const Level* level : {&levels.sips, &levels.cubes, &levels.pes}) {
    if (level->holders > 1) texts.push_back(fmt::format("{}={}", level->name, name_of(level->cut)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

// A SIP's part of c: rows and columns.
struct Block {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

Block cut_for_sip(const GemmLevels& levels, const GemmSize& size, int sip) {
  Block part{0, 0, size.m, size.n};
  const bool by_rows = levels.sips.cut == Shard::row_wise;
  std::int64_t& begin = by_rows ? part.row : part.column;
  std::int64_t& count = by_rows ? part.rows : part.columns;
  const std::int64_t chunk = sim::ceil_divide(count, levels.sips.holders);
  begin = std::min(count, chunk * sip);
  count = std::min(chunk, count - begin);
  return part;
}

// The placement of an operand: c is cut both ways, a only row-wise, b only column-wise.
DPPolicy make_policy(const GemmLevels& levels, std::optional<Shard> only = {}) {
  const auto cut = [&](const Level& level) {
    return !only || *only == level.cut ? level.cut : Shard::replicate;
  };
  return {.cube = cut(levels.cubes),
          .pe = cut(levels.pes),
          .num_cubes = levels.cubes.holders,
          .num_pes = levels.pes.holders};
}

struct OnSip {
  Block part;
  Tensor a;
  Tensor b;
  Tensor c;
};

// The HBM needed on a slice: the operands of a PE with a full share, times the PEs of the slice.
Wide bytes_on_slice(const Topology& topology, const GemmLevels& levels, const GemmInput& input) {
  GemmSize share = input.size;
  for (const Level* level : {&levels.sips, &levels.cubes, &levels.pes}) {
    std::int64_t& side = level->cut == Shard::row_wise ? share.m : share.n;
    side = sim::ceil_divide(side, level->holders);
  }
  const int per_slice = topology.pe_count() / sim::Routing::hbm_slice_count(topology);
  const Wide elements = Wide{share.m} * share.k + Wide{share.k} * share.n + Wide{share.m} * share.n;
  return elements * size_of(input.dtype) * std::min(per_slice, levels.pes.holders);
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
      : torch_(torch),
        input_(input),
        levels_(cut_levels(torch.topology(), input.placement, input.size)) {
    check_capacity(torch.topology(), levels_, input);
    for (int sip = 0; sip < levels_.sips.holders; ++sip) make_tensors(sip);
    find_shares();
  }

  const GemmLevels& levels() const { return levels_; }
  const std::vector<GemmShare>& shares() const { return shares_; }

  void bring(const ExactProduct& product);
  void launch();
  std::int64_t count_wrong(const ExactProduct& product) const;

 private:
  void make_tensors(int sip);
  void find_shares();
  GemmSize choose_tile_for(const PeLocation& pe, const GemmSize& size, int slice_sharers) const;
  void multiply(tl::Context& tl) const;
  const GemmShare& find_share(const PeLocation& pe) const {
    return *std::ranges::find(shares_, pe, &GemmShare::pe);
  }

  RuntimeContext& torch_;
  const GemmInput& input_;
  const GemmLevels levels_;
  std::vector<OnSip> sips_;  // by SIP
  std::vector<GemmShare> shares_;
};

// Allocates the tensors on the device; the host holds no elements.
void DistributedGemm::make_tensors(int sip) {
  const Block part = cut_for_sip(levels_, input_.size, sip);
  torch_.ahbm.set_device(sip);
  const auto make = [&](const Shape& shape, const DPPolicy& dp, const char* name) {
    return torch_.empty(shape, {.dtype = input_.dtype, .dp = dp, .name = name});
  };
  const std::int64_t k = input_.size.k;
  sips_.push_back({part, make({part.rows, k}, make_policy(levels_, Shard::row_wise), "a"),
                   make({k, part.columns}, make_policy(levels_, Shard::column_wise), "b"),
                   make({part.rows, part.columns}, make_policy(levels_), "c")});
}

// Choosing a tile takes the host's time, so a share of the same size as the last one gets its tile.
void DistributedGemm::find_shares() {
  std::vector<PeLocation> pes;
  for (const OnSip& on : sips_) {
    for (const ShardInfo& c : on.c.shards()) {
      if (c.shape.numel() > 0) pes.push_back({c.sip, c.cube, c.pe});
    }
  }
  const int sharers = sim::Routing::count_slice_sharers(torch_.topology(), pes);
  for (const OnSip& on : sips_) {
    for (std::size_t i = 0; i < on.c.shards().size(); ++i) {
      const ShardInfo& c = on.c.shards()[i];
      if (c.shape.numel() == 0) continue;
      const PeLocation pe{c.sip, c.cube, c.pe};
      const GemmSize size{c.shape[0], c.shape[1], input_.size.k};
      const bool as_before = !shares_.empty() && shares_.back().size == size;
      const GemmSize tile = as_before ? shares_.back().tile : choose_tile_for(pe, size, sharers);
      shares_.push_back(
          {pe, size, tile, on.a.shards()[i].address, on.b.shards()[i].address, c.address});
    }
  }
}

// The tile that tl.composite would choose by itself, so that the row can report it.
GemmSize DistributedGemm::choose_tile_for(const PeLocation& pe, const GemmSize& size,
                                          int slice_sharers) const {
  const Topology::Pe& unit = torch_.topology().pe;
  sim::CompositePlan plan;
  plan.size = size;
  plan.a.buffer.dtype = plan.b.buffer.dtype = plan.c.buffer.dtype = input_.dtype;
  const sim::Path& path = torch_.simulation().machine().fabric().path(
      {sim::Endpoint::Kind::hbm, pe}, {sim::Endpoint::Kind::tcm, pe});
  return sim::choose_tile(plan, input_.tile, unit,
                          sim::find_way_of_tiles(torch_.topology(), path, slice_sharers),
                          unit.tcm.capacity)
      .value_or(input_.tile);
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
  runtime::Simulation& simulation = torch_.simulation();
  runtime::LaunchRequest request{.name = "gemm", .pes = {}, .body = {}, .uses = {}};
  for (const GemmShare& share : shares_) request.pes.push_back(share.pe);
  for (const OnSip& on : sips_) request.uses.insert(request.uses.end(), {on.a, on.b, on.c});
  request.body = [this](tl::Context& tl) { multiply(tl); };
  request.operation = simulation.next_operation();
  simulation.begin(request.operation);
  runtime::launch(simulation, std::move(request));
}

void DistributedGemm::multiply(tl::Context& tl) const {
  const PeLocation& pe = tl.location();
  const OnSip& on = sips_[static_cast<std::size_t>(pe.sip)];
  const GemmShare& share = find_share(pe);
  tl.composite({.a = RuntimeContext::pointer_to(on.a, pe),
                .b = RuntimeContext::pointer_to(on.b, pe),
                .c = RuntimeContext::pointer_to(on.c, pe),
                .m = share.size.m,
                .n = share.size.n,
                .k = share.size.k,
                .tile_m = share.tile.m,
                .tile_n = share.tile.n,
                .tile_k = share.tile.k});
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

Wide count_products(const GemmSize& size) {
  return Wide{size.m} * size.n * size.k;
}

// The number of HBM slices that belong to the PEs of a placement.
int slice_count(const Topology& topology, const GemmLevels& levels) {
  const int per_slice = topology.pe_count() / sim::Routing::hbm_slice_count(topology);
  return levels.sips.holders * levels.cubes.holders *
         static_cast<int>(sim::ceil_divide(levels.pes.holders, per_slice));
}

// The time of the share that takes longest over the ports, cut in no tiles: tiles only add to what
// crosses them.
Time bound_of_ports(const Topology::Pe& pe, const GemmRow& row) {
  const Bandwidth port = pe.tcm.compute_bandwidth;
  if (port.is_unlimited()) return Time{0};
  const Bytes element = size_of(row.input.dtype);
  Bytes most = 0;
  for (const GemmShare& share : row.shares) {
    const sim::ComputeTraffic traffic =
        sim::gemm_traffic(pe.gemm, share.size, {element, element, element, 0});
    most = std::max({most, traffic.read, traffic.written});
  }
  return Time{static_cast<std::int64_t>(Wide{most} * kPicosecondsPerSecond / port.per_second)};
}

// Adds the hardware's lower bounds of the time, rounded down.
void add_bounds(GemmRow& row, const Topology& topology, const GemmLevels& levels) {
  const GemmSpec& array = topology.pe.gemm;
  if (!array.clock.is_unlimited()) {
    const Wide rate = Wide{array.rows} * array.columns * row.pes * array.clock.per_second;
    row.compute_bound = Time{
        static_cast<std::int64_t>(count_products(row.input.size) * kPicosecondsPerSecond / rate)};
    row.peak_tflops = 2 * static_cast<double>(rate) / 1e12;
  }
  const Bandwidth slice = sim::Routing::hbm_slice(topology).bandwidth;
  if (!slice.is_unlimited()) {
    const Wide rate = Wide{slice.per_second} * slice_count(topology, levels);
    Wide bytes = 0;
    for (const GemmShare& share : row.shares) {
      const GemmSize& size = share.size;
      bytes += (Wide{size.m} * size.k + Wide{size.k} * size.n + Wide{size.m} * size.n) *
               size_of(row.input.dtype);
    }
    row.memory_bound = Time{static_cast<std::int64_t>(bytes * kPicosecondsPerSecond / rate)};
    row.hbm_gbs = static_cast<double>(rate) / 1e9;
  }
  row.tcm_bound = bound_of_ports(topology.pe, row);
}

// The time from the first PE's start to the last PE's end.  It may exceed every single PE's time,
// since the PEs begin one after the other.
Time makespan(const std::vector<runtime::KernelResult>& results) {
  const auto first = std::ranges::min_element(results, {}, &runtime::KernelResult::start);
  const auto last = std::ranges::max_element(results, {}, &runtime::KernelResult::end);
  return results.empty() ? Time{0} : last->end - first->start;
}

}  // namespace

std::string_view name_of(GemmOn on) {
  constexpr std::array<std::string_view, kGemmOn.size()> kNames = {"pe", "cube", "sip", "all"};
  return kNames.at(static_cast<std::size_t>(on));
}

double GemmRow::flops() const {
  return 2 * static_cast<double>(count_products(input.size));
}

std::string_view GemmRow::bound() const {
  if (compute_bound == roofline()) return "compute";
  return memory_bound == roofline() ? "memory" : "tcm";
}

double GemmRow::tflops() const {
  return time > Time{0} ? flops() / to_ns(time) / 1e3 : 0;
}

std::optional<double> GemmRow::utilization() const {
  return peak_tflops ? std::optional(tflops() / *peak_tflops) : std::nullopt;
}

GemmRow run_gemm(RuntimeContext& torch, const GemmInput& input) {
  const Topology& topology = torch.topology();
  DistributedGemm gemm(torch, input);
  GemmRow row;
  row.input = input;
  row.dataflow = topology.pe.gemm.dataflow;
  row.cut = describe(gemm.levels());
  row.pes = gemm.levels().pe_count();
  row.shares = gemm.shares();
  row.tile = row.shares.front().tile;
  add_bounds(row, topology, gemm.levels());

  std::optional<ExactProduct> product;
  if (torch.options().data) product.emplace(input.size, input.dtype, input.seed);
  if (product) gemm.bring(*product);
  gemm.launch();
  const EngineView engine = torch.engine();
  row.time = engine.critical_pe_exec();
  row.window = engine.composite_window();
  row.gemm_count = engine.op_log().count(sim::OpKind::gemm);
  row.hbm_loaded = engine.hbm_bytes_loaded();
  row.hbm_stored = engine.hbm_bytes_stored();
  const Time whole = makespan(engine.last_results());
  KB_CHECK(whole >= row.roofline(), "a GEMM of {}, {}, {} took {}, less than the bound of {}",
           input.size.m, input.size.n, input.size.k, kernbench::to_string(whole),
           to_string(row.roofline()));
  if (product) row.wrong = gemm.count_wrong(*product);
  return row;
}

}  // namespace kernbench::benches::gemm
