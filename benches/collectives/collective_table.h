// The table of a collective's measurements, as nccl-tests prints it.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
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
  std::string form;        // the closed form in words; a and b are alpha and beta
  std::string why;         // auto: the other algorithms tried
  std::int64_t wrong = 0;  // wrong elements, plus ranks that differ from rank 0

  // busbw / algbw; if not set, the factor of all_reduce.
  std::optional<double> bus_factor;

  double algbw_gbs() const;
  double busbw_gbs() const;  // nccl-tests' PERFORMANCE.md
};

// The last lines of nccl-tests' tables: the number of wrong elements, and the mean of all busbw.
// `factor` names the definition of busbw.
std::string nccl_foot(std::int64_t wrong, std::span<const double> busbw_gbs,
                      std::string_view factor, const Console& console);

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
  std::int64_t wrong_ = 0;
  std::vector<double> busbw_gbs_;  // of the rows so far
  double bus_factor_ = 0;
  std::string form_;  // of the closed forms so far
  bool forms_differ_ = false;
};

}  // namespace kernbench::benches
