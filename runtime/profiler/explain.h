// A profile as text.

#pragma once

#include <string>

#include "runtime/profiler/profile.h"

namespace kernbench::runtime {

// The order of rows in table().
enum class SortBy { total, exposed, count, bytes };

// The operations as torch's key_averages().table(): a line for each, at most `row_limit`.
std::string table(const Profile& profile, SortBy sort_by = SortBy::total,
                  std::size_t row_limit = 100);

// All tables of a profile: ranks, operations, units by class, launches, waits by cause and by line.
std::string summary(const Profile& profile);

// Where the time went: ranks, operations, units, launches, waits.  At most 40 lines, however many
// ranks and operations there are.
std::string explain(const Profile& profile);

}  // namespace kernbench::runtime
