// Conditions of `kernbench compare --fail-if`.

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "benches/variants/comparison.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::string_view kBaseline = "baseline";
constexpr std::array<std::string_view, 4> kOperators = {">=", "<=", ">", "<"};
constexpr std::size_t kMostNamed = 5;

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// Returns nullopt unless all of `text` is a number.
std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = error == std::errc() && stop == text.data() + text.size();
  return is_whole ? std::optional(number) : std::nullopt;
}

[[noreturn]] void refuse(std::string_view text) {
  throw UsageError(
      "KB-U019",
      "--fail-if {}: expected a condition such as 'time_ns > 1.05 * baseline' or 'time_ns > 5000'",
      in_quotes(text));
}

}  // namespace

Condition::Condition(const std::string& text) : text_(text) {
  for (const std::string_view one : kOperators) {
    const std::size_t at = text.find(one);
    if (at == std::string::npos) continue;
    operator_ = one;
    column_ = without_blanks(std::string_view(text).substr(0, at));
    parse_limit(std::string_view(text).substr(at + one.size()));
    break;
  }
  if (column_.empty()) refuse(text_);
}

// Terms between plus signs: numbers, the baseline, or a product of the two.
void Condition::parse_limit(std::string_view rest) {
  while (true) {
    const std::size_t plus = std::min(rest.find('+'), rest.size());
    const std::string_view term = without_blanks(rest.substr(0, plus));
    const std::size_t star = term.find('*');
    if (star == std::string_view::npos) {
      const auto number = parse_number(term);
      if (!number && term != kBaseline) refuse(text_);
      (number ? constant_ : factor_) += number.value_or(1);
    } else {
      const std::string_view left = without_blanks(term.substr(0, star));
      const std::string_view right = without_blanks(term.substr(star + 1));
      const auto number = parse_number(left == kBaseline ? right : left);
      if (!number || (left == kBaseline) == (right == kBaseline)) refuse(text_);
      factor_ += *number;
    }
    if (plus == rest.size()) return;
    rest.remove_prefix(plus + 1);
  }
}

bool Condition::holds(const ComparedNumber& number) const {
  const double limit = factor_ * number.before + constant_;
  if (operator_ == ">") return number.after > limit;
  if (operator_ == ">=") return number.after >= limit;
  if (operator_ == "<") return number.after < limit;
  return number.after <= limit;
}

namespace {

std::string listed(const std::vector<std::string>& lines) {
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kMostNamed); ++i) text += "\n  " + lines[i];
  if (lines.size() > kMostNamed) text += fmt::format("\n  and {} more", lines.size() - kMostNamed);
  return text;
}

}  // namespace

void check_condition(const Comparison& comparison, const Condition& condition) {
  std::size_t checked = 0;
  std::vector<std::string> failed;
  for (const ComparedRow& row : comparison.rows) {
    const ComparedNumber* const number = row.find(condition.column());
    if (number == nullptr) continue;
    ++checked;
    if (!condition.holds(*number)) continue;
    failed.push_back(fmt::format("{}{}{} after {}", row.name, row.name.empty() ? "" : ": ",
                                 number->after, number->before));
  }
  if (checked == 0) {
    throw UsageError("KB-U019", "--fail-if {}: no row of both runs has a number in {}",
                     in_quotes(condition.text()), in_quotes(condition.column()));
  }
  std::string text;
  if (!failed.empty()) {
    text = fmt::format("'{}' holds for {} of {} rows:{}", condition.text(), failed.size(), checked,
                       listed(failed));
  }
  if (const auto& gone = comparison.only_before; !gone.empty()) {
    text += fmt::format("{}{} row{} of the first run {} not in the second:{}",
                        text.empty() ? "" : "\n", gone.size(), gone.size() == 1 ? "" : "s",
                        gone.size() == 1 ? "is" : "are", listed(gone));
  }
  if (!text.empty()) throw NumericsError("KB-N050", text);
}

}  // namespace kernbench::benches::variants
