// The figures that follow from a product's size, its shares and its time.

#include <algorithm>
#include <array>

#include "benches/gemm/gemm_placement.h"
#include "benches/gemm/gemm_run.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/gemm_array.h"
#include "sim_engine/components/routing.h"

namespace kernbench::benches::gemm {

namespace {

Wide count_products(const sim::GemmSize& size) {
  return Wide{size.m} * size.n * size.k;
}

// The number of HBM slices that hold a and b.
int slice_count(const Topology& topology, const GemmLevels& levels) {
  return levels.sips.holders * levels.cubes.holders *
         sim::Routing::count_hbm_slices(topology, levels.operand_pes);
}

// The time of the share that takes longest over the ports, cut in no tiles: tiles only add to what
// crosses them.
Time bound_of_ports(const Topology::Pe& pe, const GemmRow& row) {
  const Bandwidth port = pe.tcm.compute_bandwidth;
  if (port.is_unlimited()) return Time{0};
  const Bytes element = size_of(row.input.dtype);
  Bytes most = 0;
  for (const GemmShare& share : row.shares) {
    const sim::ComputeTraffic traffic = sim::gemm_traffic(
        pe.gemm, share.size, {element, element, size_of(row.input.dtype_of_c()), 0});
    most = std::max({most, traffic.read, traffic.written});
  }
  return Time{static_cast<std::int64_t>(Wide{most} * kPicosecondsPerSecond / port.per_second)};
}

}  // namespace

void add_bounds(GemmRow& row, const Topology& topology, const GemmLevels& levels) {
  const GemmSpec& array = topology.pe.gemm;
  if (!array.clock.is_unlimited()) {
    const Wide rate = Wide{array.rows} * array.columns * row.shares.size() *
                      array.clock.per_second *
                      sim::products_per_cell(array, size_of(row.input.dtype));
    row.compute_bound = Time{
        static_cast<std::int64_t>(count_products(row.input.size) * kPicosecondsPerSecond / rate)};
    row.peak_tflops = 2 * static_cast<double>(rate) / 1e12;
  }
  const Bandwidth slice = sim::Routing::hbm_slice(topology).bandwidth;
  if (!slice.is_unlimited()) {
    const Wide rate = Wide{slice.per_second} * slice_count(topology, levels);
    const auto& [m, n, k] = row.input.size;
    const Wide bytes = (Wide{m} * k + Wide{k} * n) * size_of(row.input.dtype) +
                       Wide{m} * n * size_of(row.input.dtype_of_c());
    row.memory_bound = Time{static_cast<std::int64_t>(bytes * kPicosecondsPerSecond / rate)};
    row.hbm_gbs = static_cast<double>(rate) / 1e9;
  }
  row.tcm_bound = bound_of_ports(topology.pe, row);
}

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

}  // namespace kernbench::benches::gemm
