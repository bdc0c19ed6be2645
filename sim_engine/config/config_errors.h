// The errors of one configuration file, collected so that the user sees all of them at once.

#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace kernbench {

// A position in a text, counted from 1; columns are bytes.
struct TextMark {
  int line = 1;
  int column = 1;
  friend auto operator<=>(TextMark, TextMark) = default;
};

// The mark of a key that a program has added to a text.
inline constexpr TextMark kNowhere{0, 0};

class ConfigErrors {
 public:
  explicit ConfigErrors(std::string file_name) : file_name_(std::move(file_name)) {}

  // `code` must be a literal.
  void add(TextMark mark, std::string_view code, std::string text);

  // False if an error at `mark` would only be counted, not listed: its text is then not needed.
  bool would_list(TextMark mark) const;

  int count() const { return count_; }
  const std::string& file_name() const { return file_name_; }

  // Throws one ConfigError if there are errors.  Its text has a line "file:line:column: [code]
  // text", or "file: [code] text" at kNowhere, for each of the first 20 in file order, then "and N
  // more"; its code() is the first one's.
  void throw_if_any() const;

 private:
  struct Entry {
    TextMark mark;
    std::string_view code;
    std::string text;
  };

  std::string file_name_;
  std::vector<Entry> first_;  // in file order: the errors that will be listed
  int count_ = 0;
};

// `text` in single quotes, for a message: escaped by visible(), and shortened if it is long.
std::string in_quotes(std::string_view text);

// The same without the quotes.
std::string shown(std::string_view text);

}  // namespace kernbench
