// The price of training whose bits do not depend on the number of ranks: micro-batches of one shape
// for data parallelism, blocks of one shape for tensor parallelism, and ranks that are added in
// pairs (Reproducible::pairs).

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::numerics {

enum class Scheme : std::uint8_t { ddp, fsdp2, tp };
inline constexpr std::array kSchemes = {Scheme::ddp, Scheme::fsdp2, Scheme::tp};
std::string_view name_of(Scheme scheme);

// The worlds that can train so: those that divide 16.
bool is_world_of_training(std::int64_t ranks);

// Trains a small transformer on each topology, as usual and with fixed bits; then its loss must be
// that on the first.
std::vector<Row> run_training(PointContext& point, const std::vector<Topology>& topologies,
                              Scheme scheme);

void print_training(Bench& bench, const std::vector<Row>& rows);

}  // namespace kernbench::benches::numerics
