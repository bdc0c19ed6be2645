// A profile as text.

#pragma once

#include <string>
#include <string_view>

#include "runtime/profiler/profile.h"

namespace kernbench::runtime {

// The order of rows in table(): the largest first, of slack the smallest.
enum class SortBy { total, average, longest, exposed, slack, count, bytes };

// Takes torch's names of `sort_by` whose figures a simulated device has ("cuda_time_total",
// "device_time", "count"), and those of SortBy; "" is "total".  Throws CollectiveError KB-R031,
// which lists them, for any other.
SortBy parse_sort_by(std::string_view name);

// The operations as torch's key_averages().table(): a line for each, at most `row_limit`.
std::string table(const Profile& profile, SortBy sort_by = SortBy::total,
                  std::size_t row_limit = 100);

// All tables of a profile: ranks, operations, units by class, launches, waits by cause and by line.
std::string summary(const Profile& profile);

// Where the time went: ranks, operations, units, launches, waits.  At most 40 lines, however many
// ranks and operations there are.
std::string explain(const Profile& profile);

}  // namespace kernbench::runtime
