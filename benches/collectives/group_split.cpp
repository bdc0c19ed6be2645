#include "benches/collectives/group_split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim_engine/base/error.h"
#include "sim_engine/config/yaml_scalar.h"

namespace kernbench::benches::collectives {

std::vector<std::vector<int>> split_ranks(std::string_view text, int ranks) {
  const bool by_division = text.starts_with("div:");
  const ParsedScalar number =
      parse_integer(text.substr(std::min<std::size_t>(4, text.size())), 1, ranks);
  if ((!by_division && !text.starts_with("mod:")) || !number.code.empty()) {
    throw UsageError("KB-U012",
                     "--set groups={}: expected mod:N, ranks that are equal modulo N, or div:N, N "
                     "ranks in a row, with N from 1 to {}",
                     text, ranks);
  }
  const auto divisor = static_cast<int>(number.value);
  if (ranks % divisor != 0) {
    throw UsageError("KB-U012", "--set groups={}: {} ranks do not divide into groups of equal size",
                     text, ranks);
  }
  std::vector<std::vector<int>> groups(
      static_cast<std::size_t>(by_division ? ranks / divisor : divisor));
  for (int rank = 0; rank < ranks; ++rank) {
    groups[static_cast<std::size_t>(by_division ? rank / divisor : rank % divisor)].push_back(rank);
  }
  return groups;
}

std::string members_text(std::span<const int> members) {
  if (members.size() <= 4) return fmt::format("{}", fmt::join(members, ", "));
  return fmt::format("{}, {}, ..., {}", members[0], members[1], members.back());
}

}  // namespace kernbench::benches::collectives
