// The rows of the bench `collectives`, and its tables as nccl-tests prints them.

#pragma once

#include <optional>
#include <span>
#include <string>

#include "benches/bench/bench.h"
#include "benches/collectives/measured_collective.h"

namespace kernbench::benches {

// The measurements of one size.  Out of place or in place is nullopt if torch.distributed does not
// support that form.
struct NcclRow {
  MeasuredInput input;
  std::optional<Measurement> out_of_place;
  std::optional<Measurement> in_place;

  Bytes size() const;
};

Row to_row(const NcclRow& row);

// Prints the table of one collective: rows of to_row(), of the same ranks.
void print_nccl_table(Bench& bench, MeasuredCollective collective, std::span<const Row> rows);

}  // namespace kernbench::benches
