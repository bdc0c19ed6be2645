#include "sim_engine/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim_engine/base/visible_text.h"

namespace kernbench {

namespace {

// Levenshtein distance, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string with_code(std::string_view code, std::string_view text) {
  std::string line;
  line.reserve(code.size() + text.size() + 3);
  return line.append("[").append(code).append("] ").append(text);
}

}  // namespace

Error::Error(std::string_view code, ExitCode exit_code, std::string_view text)
    : std::runtime_error(with_code(code, visible_lines(text))),
      code_(code),
      exit_code_(exit_code) {}

Error::Error(TextHasCodes, std::string_view code, ExitCode exit_code, const std::string& text)
    : std::runtime_error(visible_lines(text)), code_(code), exit_code_(exit_code) {}

void Error::set_place(Place place) {
  place_ = std::move(place);
  const std::string kind = visible(place_.kind);
  const std::string path = visible(place_.path);
  text_with_place_ = fmt::format("{}\n  in {}", std::runtime_error::what(),
                                 path.empty() ? kind : fmt::format("{} ({})", path, kind));
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  constexpr std::size_t kFarthest = 2;
  std::string_view best;
  std::size_t best_distance = kFarthest + 1;
  for (const std::string_view candidate : candidates) {
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    if (longer - shorter > kFarthest) continue;  // a word may be as long as a file
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace kernbench
