// Who computes which part of a product, and where its matrices lie.
//
// c is cut over SIPs, cubes and PEs.  On each SIP a and b lie once, cut over its cubes: the operand
// that c's cut among cubes cuts too lies with c, and of the other one each cube has some rows.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "benches/gemm/gemm_run.h"
#include "runtime/tensor/tensor_options.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::gemm {

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
  int operand_pes = 1;  // of each cube: those whose HBM holds a and b

  int pe_count() const { return sips.holders * cubes.holders * pes.holders; }
};

// The PEs that the placement allows.
int count_allowed_pes(const Topology& topology, const GemmPlacement& placement);

// Cuts the longer side of what is left, unless the placement says otherwise.  Holders that would
// make the product slower get no part: PEs whose part would be smaller than the array, and SIPs and
// cubes that have neither a part of that size nor operands to give.
GemmLevels cut_levels(const Topology& topology, const GemmInput& input);

// "sip=row_wise, cube=column_wise"; "" on one PE.
std::string describe(const GemmLevels& levels);

// A SIP's part of c: rows and columns.
struct Block {
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

Block cut_for_sip(const GemmLevels& levels, const sim::GemmSize& size, int sip);

// The placement of a SIP's matrices.
struct GemmPolicies {
  DPPolicy a;
  DPPolicy b;
  DPPolicy c;
};

GemmPolicies make_policies(const GemmLevels& levels);

// Adds the hardware's lower bounds of the time, rounded down, and the peak that they are of.
// REQUIRES: the row has its input and its shares
void add_bounds(GemmRow& row, const Topology& topology, const GemmLevels& levels);

}  // namespace kernbench::benches::gemm
