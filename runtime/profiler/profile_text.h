// Helpers that the texts of profiles share.

#pragma once

#include <string>
#include <string_view>

#include "runtime/profiler/profile.h"

namespace kernbench::runtime {

double percent(Time part, Time whole);
double us(Time time);
// A text of at most `width` characters.
std::string cut(const std::string& text, std::size_t width);

inline constexpr std::string_view kRankHead =
    "  rank    compute only     both   exposed commun.     idle";
std::string rank_line(const RankTime& rank, Time whole);
std::string operation_table(const std::vector<OperationRow>& operations, SortBy sort_by,
                            std::size_t row_limit);
// Names the part of the run that a profile shows.
std::string part_text(const Profile& profile);
std::string launches_text(const Profile& profile);

}  // namespace kernbench::runtime
