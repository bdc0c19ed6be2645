// Times that somebody has published, from a CSV file:
//
//   # a comment
//   bytes,all_reduce_us,all_gather_us
//   1024,13.12,
//   4096,15.28,14.1
//
// The first column is nccl-tests' size, each other one a collective's time in microseconds; a field
// may be empty.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "benches/collectives/bus_bandwidth.h"

namespace kernbench::benches::collectives {

struct PublishedTime {
  MeasuredCollective collective = MeasuredCollective::all_reduce;
  Bytes size = 0;
  Time time{0};
};

// Returns times in the order of the columns, then of the lines.  Throws ConfigError KB-Y048, with
// `file`, line and column, if the text has another form.
std::vector<PublishedTime> parse_published_times(std::string_view text, const std::string& file);

}  // namespace kernbench::benches::collectives
