// The rows of measured collectives, and their tables as nccl-tests prints them.

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/bench/table.h"
#include "benches/collectives/measured_collective.h"

namespace kernbench::benches::collectives {

// nccl-tests' name of the reduction, "none" where nothing is reduced.
std::string_view redop_name(const BlocksInput& blocks);

// The row of a size that was measured out of place and in place; nullopt where torch.distributed
// does not support that form.
Row to_row(const MeasuredInput& input, const std::optional<Measurement>& out_of_place,
           const std::optional<Measurement>& in_place);

// Adds the group's members, its time without the other groups, and how many times longer it took
// beside them.
void add_alone(Row& row, const MeasuredInput& input, const Measurement& at_once,
               const Measurement& alone);

// The row of a size that was measured once, by the config's algorithm.
Row to_row(const MeasuredInput& input, const Measurement& measured, const ccl::Config& config);

enum class TableForm : std::uint8_t {
  both_places,     // nccl-tests' columns
  groups_at_once,  // the same, and those of add_alone()
  one_place,       // fewer of them, and the time of the slowest PE and of the closed form
};

// Prints the table of one collective, row by row.
class CollectiveTable {
 public:
  CollectiveTable(Bench& bench, MeasuredCollective collective, TableForm form);

  // The head comes before the first row.
  // REQUIRES: the row has the cells of all columns; those of one_place are to_row()'s and "redop"
  void add(const Row& row);
  // The columns that had no room beside the first ones, the number of wrong elements, the mean of
  // all busbw, by which algorithms one_place ran, where another one would gain most by the model,
  // and the closed form if it is the same for all rows.
  void end();

 private:
  void print_head(std::span<const TableColumn> columns);
  std::string algorithms_text() const;
  std::string faster_text() const;

  Bench& bench_;
  const CollectiveSpec& spec_;
  const std::vector<std::vector<TableColumn>> tables_;  // the others follow at the end
  const bool is_in_one_place_;
  std::vector<Row> rows_;
  const std::string_view missing_;  // shown for what was not measured
  std::int64_t wrong_ = 0;
  double bus_factor_ = 1;
  std::vector<double> busbw_gbs_;  // of the rows so far
  std::set<std::string> forms_;
};

}  // namespace kernbench::benches::collectives
