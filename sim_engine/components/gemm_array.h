// The closed forms of a systolic array of R x C multipliers, one product per cycle each.
//
// Models:      the cycles of C[m, n] += A[m, k] B[k, n], cut in folds that fill the array one after
//              the other.  Of R x C values one operand or the result stays in place; T is how many
//              steps the other two take to stream past it.
//
//                dataflow           stays   folds                    T  cycles of a fold
//                output_stationary  C       ceil(m / R) ceil(n / C)  k  T + R + C - 2
//                weight_stationary  B       ceil(k / R) ceil(n / C)  m  T + 2 R + C - 2
//                input_stationary   A       ceil(k / R) ceil(m / C)  n  T + 2 R + C - 2
//
//              R + C - 2 is the skew of the wave front; the R more load what stays.
//              With pe.gemm.overlap the next fold enters while the last one leaves: a fold begins
//              max(T, R) after the one before.  The R are those in which the next values of what
//              stays are loaded beside the present ones, or the results leave by registers of their
//              own.  Products do not overlap: each fills the array and empties it.
//              With pe.gemm.f8_per_cell = P a cell adds up P products of elements of 8 bits in a
//              cycle: the array takes such a product as one of depth ceil(k / P).
//              The operand or result that stays in place crosses the TCM's ports once.  The operand
//              that streams does so for each fold, and sums that do not stay are written, and read
//              again in f32, for each further part of k.
// Not modeled: operands that arrive late within a fold.
// Source:      SCALE-Sim v2 (its paper, ISPASS 2020, counts R more for output_stationary; its
//              program prints the number of the last cycle, one less), which has no overlap.  The
//              second set of registers is that of TPU v1 (arXiv 1704.04760: weights are shifted in
//              behind those in use) and Gemmini (arXiv 1911.09925: both dataflows).

#pragma once

#include <cstdint>
#include <optional>

#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

struct GemmArrayUse {
  std::int64_t folds = 0;
  std::int64_t cycles = 0;  // of all folds
};

// The folds and cycles of a product of elements of so many bytes; an empty product takes no cycles.
// nullopt if the cycles do not fit in 64 bits.
// REQUIRES: no size is negative; rows and columns are at least 1
std::optional<GemmArrayUse> gemm_array_use(const GemmSpec& array, const GemmSize& size,
                                           Bytes element = 2);

// The products that each cell adds up in a cycle, of elements of so many bytes.
constexpr int products_per_cell(const GemmSpec& array, Bytes element) {
  return element == 1 ? array.f8_per_cell : 1;
}

// The sizes of a product's operands, which it reads from TCM and writes to it.
struct GemmOperands {
  Bytes of_a = 0;  // of one element
  Bytes of_b = 0;
  Bytes of_c = 0;
  Bytes added_to = 0;  // what the product is added to, as a whole
};
ComputeTraffic gemm_traffic(const GemmSpec& array, const GemmSize& size,
                            const GemmOperands& operands);

// The multipliers whose energy a product takes: as wide as the wider operand.  And its work.
constexpr EnergyUnit energy_unit_of(const GemmOperands& operands) {
  return operands.of_a <= 2 && operands.of_b <= 2 ? EnergyUnit::gemm_f16 : EnergyUnit::gemm_f32;
}
constexpr std::int64_t count_flops(const GemmSize& size) {
  return 2 * size.m * size.n * size.k;
}

// The share of all multipliers and cycles that multiplied: m n k / (cycles R C), for reports of
// elements of more than 8 bits.
double gemm_utilization(const GemmSpec& array, const GemmSize& size, const GemmArrayUse& use);

}  // namespace kernbench::sim
