#include "sim_engine/config/config_errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim_engine/base/error.h"
#include "sim_engine/base/visible_text.h"

namespace kernbench {

namespace {

constexpr std::size_t kMaxListed = 20;
constexpr std::size_t kMaxShown = 80;  // bytes of the user's text in a message

bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

void ConfigErrors::add(TextMark mark, std::string_view code, std::string text) {
  ++count_;
  if (!would_list(mark)) return;
  const auto place = std::ranges::upper_bound(first_, mark, {}, &Entry::mark);
  first_.insert(place, {mark, code, std::move(text)});
  if (first_.size() > kMaxListed) first_.pop_back();
}

bool ConfigErrors::would_list(TextMark mark) const {
  return first_.size() < kMaxListed || mark < first_.back().mark;
}

void ConfigErrors::throw_if_any() const {
  if (count_ == 0) return;
  std::string text;
  for (const Entry& entry : first_) {
    const std::string place =
        entry.mark == kNowhere ? "" : fmt::format(":{}:{}", entry.mark.line, entry.mark.column);
    text += fmt::format("{}{}{}: [{}] {}", text.empty() ? "" : "\n", visible(file_name_), place,
                        entry.code, entry.text);
  }
  const std::size_t unlisted = static_cast<std::size_t>(count_) - first_.size();
  if (unlisted > 0) text += fmt::format("\nand {} more", unlisted);
  throw ConfigError::listing(first_.front().code, text);
}

std::string shown(std::string_view text) {
  std::size_t length = std::min(text.size(), kMaxShown);
  if (length < text.size()) {
    while (length > 0 && is_utf8_continuation(text[length])) --length;
  }
  std::string result = visible(text.substr(0, length));
  if (length < text.size()) result += "...";
  return result;
}

std::string in_quotes(std::string_view text) {
  return '\'' + shown(text) + '\'';
}

}  // namespace kernbench
