// Rows of a collective, as nccl-tests prints them.

#pragma once

#include <cstdint>
#include <string>

#include "benches/bench.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::benches {

struct CollectiveRow {
  std::string collective;
  std::string algorithm;
  int world_size = 1;
  std::string buffer_kind;
  std::int64_t n_elem = 0;
  DType dtype = DType::f16;
  std::string redop = "sum";
  Bytes bytes = 0;   // logical, on each rank
  Time critical{0};  // the slowest PE's execution time
  Time time{0};      // from the first rank's call to the last rank's return
  Time lower_bound{0};
  std::optional<Time> closed_form;
  std::string form;        // that closed form in words; a and b are alpha and beta
  std::string why;         // auto: what else was tried
  std::int64_t wrong = 0;  // elements, and ranks that differ from rank 0

  // What busbw is algbw times of; unless set, all_reduce's.
  std::optional<double> bus_factor;

  double algbw_gbs() const;
  double busbw_gbs() const;  // nccl-tests' PERFORMANCE.md
};

// 2 (P - 1) / P
double all_reduce_bus_factor(int world_size);

// Prints the table row by row and adds the rows to the bench's report.
class CollectiveTable {
 public:
  explicit CollectiveTable(Bench& bench) : bench_(bench) {}

  void begin();
  // Throws InternalError if the time is less than the lower bound.
  void add(const CollectiveRow& row);
  void end();

 private:
  Bench& bench_;
  int row_count_ = 0;
  std::int64_t wrong_ = 0;
  double busbw_sum_ = 0;
  double bus_factor_ = 0;
  std::string form_;  // of the closed forms so far
  bool forms_differ_ = false;
};

}  // namespace kernbench::benches
