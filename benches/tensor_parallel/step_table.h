// Tables of training steps for people.

#pragma once

#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/row.h"

namespace kernbench::benches::tensor_parallel {

struct StepRows {
  std::vector<Row> steps;        // ascending in tp
  std::vector<Row> collectives;  // likewise
};

// Separates the rows that to_rows() has made of several steps.
StepRows split_rows(const std::vector<Row>& rows);

// Prints the times and shares of each step, its collectives, and whether all results are right.
void print_steps(Bench& bench, const StepRows& rows);

}  // namespace kernbench::benches::tensor_parallel
