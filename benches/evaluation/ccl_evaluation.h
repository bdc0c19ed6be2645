// The evaluation of all_reduce (ADR-0043): the points to simulate, and the result of one point.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/row.h"
#include "benches/bench/row_cells.h"
#include "ccl/core/config.h"
#include "sim_engine/base/embedded_file.h"

namespace kernbench::benches::evaluation {

inline constexpr std::array<std::string_view, 3> kEvaluatedTopologies = {
    "ring_1d_6", "torus_2d_2x3", "mesh_2d_no_wrap_2x3"};
inline constexpr std::string_view kBufferKindTopology = "torus_2d_3x2";
// A SIP of ring_1d_6 by itself, under this name in the rows: what stands beside FSIM's device.
inline constexpr std::string_view kOneDevice = "one_device";
// The machine whose parameters are fitted to what the original has printed (ADR-0185).
inline constexpr std::string_view kOriginalTopology = "original_6sip";

// What the original evaluates; runs unless ccl.yaml names another.
inline constexpr std::string_view kEvaluatedAlgorithm = "intercube_allreduce";

// Elements per cube, in f16.
inline constexpr std::array<std::int64_t, 12> kLatencySizes = {
    8, 32, 64, 128, 512, 1024, 2048, 4096, 8192, 16'384, 32'768, 49'152};
inline constexpr std::array<std::int64_t, 5> kBufferKindSizes = {128, 1024, 8192, 16'384, 49'152};

// One all_reduce on a system of its own, through init_process_group, spawn and all_reduce.
struct CclPoint {
  std::string_view topology;  // the name of a shipped one, or kOneDevice
  std::int64_t n_elem = 0;
  DType dtype = DType::f16;
  sim::BufferKind buffer_kind = sim::BufferKind::tcm;
  ccl::Root root = ccl::Root::center;
};

// Simulates a point and checks every element of every copy.  Columns: topology, algorithm, n_elem,
// dtype, bytes, buffer_kind, root, crit_ns (max pe_exec_ns), joint_ns (from the last PE's begin to
// the last one's end), time_ns, theory_ns (time_on_links()), lower_bound_ns, wrong.
Row simulate(PointContext& point, const CclPoint& wanted);

// The rows of the sweeps.
struct CclEvaluation {
  std::vector<Row> correctness;   // the three topologies x the types, sizes that divide nothing
  std::vector<Row> latency;       // the three topologies, and one device, x kLatencySizes
  std::vector<Row> buffer_kinds;  // tcm, sram and hbm x kBufferKindSizes
  std::vector<Row> roots;         // the three topologies and the original's x kRoots
};

// The sizes that a run simulates.
struct CclSizes {
  std::vector<std::int64_t> latency{kLatencySizes.begin(), kLatencySizes.end()};
  std::vector<std::int64_t> buffer_kinds{kBufferKindSizes.begin(), kBufferKindSizes.end()};
};

// The time by the model of an all_reduce of `bytes` per cube, all of which have summands cut over
// their PEs, if nothing costs time but links (ADR-0193); nullopt of a kernel.
std::optional<Time> time_on_links(const Topology& topology, const ccl::Config& config,
                                  const ccl::Algorithm& algorithm, Bytes bytes);

// Throws ConfigError KB-Y043 if the bench's ccl.yaml chooses anything but an all_reduce over SIPs.
CclEvaluation evaluate_ccl(Bench& bench, const CclSizes& sizes);

}  // namespace kernbench::benches::evaluation
