#include "runtime/pipelining/action.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "sim_engine/base/error.h"

namespace kernbench::distributed::pipelining {

namespace {

// In the order of ActionKind.
constexpr std::array<std::string_view, 11> kKindNames = {
    "F",      "B",      "I",       "W",       "SEND_F",     "RECV_F",
    "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};
constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::string_view kDigits = "0123456789";
constexpr int kMostNumber = 1'000'000;

std::string_view strip(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_read = error == std::errc() && end == text.data() + text.size();
  if (text.empty() || !is_read || number > kMostNumber) return {};
  return number;
}

[[noreturn]] void refuse_action(std::string_view text) {
  throw CollectiveError("KB-C024",
                        "Invalid action string: {}, should be formatted as [stage][action type]"
                        "[(microbatch)] e.g. 2F0",
                        text);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Adds the actions of a cell.
void parse_cell(std::string_view cell, std::vector<Action>& actions) {
  cell = strip(cell);
  const bool is_overlap = cell.starts_with('(');
  if (!is_overlap) return actions.push_back(parse_action(cell));
  const std::size_t end = cell.find(')');
  if (end == std::string_view::npos || strip(cell.substr(end + 1)) != kOverlap) refuse_action(cell);
  for (const std::string_view part : split(cell.substr(1, end - 1), ';')) {
    actions.push_back(parse_action(part));
  }
}

std::vector<Action> parse_row(std::string_view row, std::size_t rank) {
  std::vector<Action> actions;
  const auto cells = split(row, ',');
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (strip(cells[i]).empty()) continue;
    try {
      parse_cell(cells[i], actions);
    } catch (const CollectiveError& error) {
      const std::string_view text = error.what();
      throw CollectiveError("KB-C024", "row {}, cell {}: {}", rank + 1, i + 1,
                            text.substr(text.find("] ") + 2));
    }
  }
  return actions;
}

}  // namespace

std::string to_string(const Action& action) {
  return fmt::format("{}{}{}", action.stage, kKindNames[static_cast<std::size_t>(action.kind)],
                     has_microbatch(action.kind) ? std::to_string(action.microbatch) : "");
}

Action parse_action(std::string_view text) {
  text = strip(text);
  const std::size_t kind_begin = std::min(text.find_first_not_of(kDigits), text.size());
  const std::string_view rest = text.substr(kind_begin);
  const std::size_t kind_end = std::min(rest.find_first_of(kDigits), rest.size());
  const auto* const found = std::ranges::find(kKindNames, rest.substr(0, kind_end));
  const auto stage = parse_number(text.substr(0, kind_begin));
  if (!stage || found == kKindNames.end()) refuse_action(text);
  const auto kind = static_cast<ActionKind>(found - kKindNames.begin());
  if (!has_microbatch(kind)) {
    if (kind_end != rest.size()) refuse_action(text);
    return {.stage = *stage, .kind = kind};
  }
  const auto microbatch = parse_number(rest.substr(kind_end));
  if (!microbatch) refuse_action(text);
  return {.stage = *stage, .kind = kind, .microbatch = *microbatch};
}

ActionLists parse_actions(std::string_view csv) {
  ActionLists lists;
  for (const std::string_view row : split(csv, '\n')) {
    lists.push_back(parse_row(row, lists.size()));
  }
  while (!lists.empty() && lists.back().empty()) lists.pop_back();  // behind the last line
  const auto empty = std::ranges::find_if(lists, &std::vector<Action>::empty);
  if (lists.empty() || empty != lists.end()) {
    throw CollectiveError("KB-C024", "rank {} has no action", empty - lists.begin());
  }
  return lists;
}

std::string to_csv(const ActionLists& lists) {
  std::string csv;
  for (const std::vector<Action>& row : lists) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      csv += (i == 0 ? "" : ",") + to_string(row[i]);
    }
    csv += '\n';
  }
  return csv;
}

}  // namespace kernbench::distributed::pipelining
