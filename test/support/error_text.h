// Checks of errors: their kind, their code and the words that a user needs.  Whole texts are
// compared in test/golden/failures.txt alone, so that a rewritten sentence changes one place.

#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/error.h"

namespace kernbench::test {

// what() of the `Expected` that `action` throws; "no error" if it throws none.  Anything else that
// it throws fails the test.
template <class Expected, class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.what();
  }
  return "no error";
}

template <class Action>
std::string config_error_of(Action action) {
  return error_of<ConfigError>(action);
}

template <class Action>
std::string refusal(const Action& action) {
  return error_of<CollectiveError>(action);
}

// A matcher of errors and of their texts: the code, and each word somewhere in the text, where a
// word is not a part of a longer one.  REQUIRES: no word is empty
//   CHECK_THROWS_MATCHES(divide(12, 5), CollectiveError, Says("KB-T001", "12", "5"));
//   CHECK_THAT(ended.standard_error, Says("KB-D003", "'spins'", "0.2 s"));
class Says {
 public:
  template <class... Words>
  explicit Says(std::string_view code, const Words&... words)
      : code_(code), words_{std::string(words)...} {}

  bool match(const Error& error) const { return error.code() == code_ && match(error.what()); }
  bool match(const std::string& text) const {
    if (text.find("[" + code_ + "]") == std::string::npos) return false;
    for (const std::string& word : words_) {
      if (!holds(text, word)) return false;
    }
    return true;
  }
  std::string toString() const { return fmt::format("says [{}] {}", code_, words_); }

 private:
  static bool joins(char left, char right) {
    const auto is_of_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    return is_of_word(left) && is_of_word(right);
  }
  static bool holds(std::string_view text, std::string_view word) {
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
      const std::size_t end = at + word.size();
      const bool begins = at == 0 || !joins(text[at - 1], word.front());
      if (begins && (end == text.size() || !joins(word.back(), text[end]))) return true;
    }
    return false;
  }

  std::string code_;
  std::vector<std::string> words_;
};

}  // namespace kernbench::test
