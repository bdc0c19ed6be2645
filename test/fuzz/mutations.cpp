#include "test/fuzz/mutations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace kernbench::fuzz {

namespace {

constexpr std::array<std::string_view, 40> kNumbers = {"0",
                                                       "1",
                                                       "-1",
                                                       "-0",
                                                       "+1",
                                                       "2",
                                                       "3",
                                                       "7",
                                                       "010",
                                                       "0x10",
                                                       "1e3",
                                                       "1e308",
                                                       "1e400",
                                                       "-1e308",
                                                       "nan",
                                                       ".nan",
                                                       "inf",
                                                       "-.inf",
                                                       "0.5",
                                                       "1.",
                                                       ".5",
                                                       "0.000000000000000001",
                                                       "0.0000000000000000001",
                                                       "255",
                                                       "256",
                                                       "65536",
                                                       "1048576",
                                                       "2147483647",
                                                       "2147483648",
                                                       "4294967296",
                                                       "9007199254740992",
                                                       "9223372036854775807",
                                                       "9223372036854775808",
                                                       "-9223372036854775808",
                                                       "18446744073709551615",
                                                       "18446744073709551616",
                                                       "999999999999999999",
                                                       "1000000000000000000",
                                                       "99999999999999999999999999999999999999",
                                                       "1_000"};

// Syntax of YAML and JSON, and characters that are none of a configuration.
constexpr std::array<std::string_view, 64> kSyntax = {"&a ",
                                                      "*a",
                                                      "<<: *a",
                                                      "<<",
                                                      "!!str ",
                                                      "!t ",
                                                      "! ",
                                                      "---\n",
                                                      "...\n",
                                                      "%YAML 1.2\n",
                                                      "%TAG ! x\n",
                                                      "# ",
                                                      " #",
                                                      "\t",
                                                      "\r\n",
                                                      "\r",
                                                      ": ",
                                                      ":",
                                                      "? ",
                                                      "- ",
                                                      ", ",
                                                      ",",
                                                      "|\n",
                                                      ">-\n",
                                                      "|2\n ",
                                                      "\"",
                                                      "'",
                                                      "\\",
                                                      "\\\n",
                                                      "\"\\x00\"",
                                                      "\"\\u2028\"",
                                                      "\"\\UFFFFFFFF\"",
                                                      "\"\\ud800\"",
                                                      "[",
                                                      "]",
                                                      "{",
                                                      "}",
                                                      "[]",
                                                      "{}",
                                                      "~",
                                                      "null",
                                                      "@",
                                                      "`",
                                                      "=",
                                                      "\n",
                                                      "\n\n",
                                                      " ",
                                                      "  ",
                                                      "\xEF\xBB\xBF",
                                                      "\xFF\xFE",
                                                      "\xC2\x85",
                                                      "\xE2\x80\xA8",
                                                      "\xE2\x80\xAE",
                                                      "\xED\xA0\x80",
                                                      "\xC0\x80",
                                                      "\xF4\x90\x80\x80",
                                                      "\xF0\x9F\x92\xA5",
                                                      "\xE1\x85\x9F",
                                                      "\x1B[31m",
                                                      "\x7F",
                                                      "\x01",
                                                      "\"\": ",
                                                      "{a: 1}",
                                                      "%"};

constexpr std::array<std::string_view, 12> kNesting = {
    "[", "{", "- ", "? ", "[[", "{a: ", "- - ", "a: ", "\"", "!", "{\"a\":", "&a "};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' ||
         c == '/';
}

struct Pair {
  std::string_view open;
  std::string_view close;
};
constexpr std::array<Pair, 3> kPairs = {{{"[", "]"}, {"{\"a\":", "}"}, {"{a: ", "}"}}};

struct Range {
  std::size_t begin = 0;
  std::size_t size = 0;
};

Range any_range(const std::string& text, Random& random) {
  const std::size_t begin = random.below(text.size() + 1);
  return {begin, random.small_below(text.size() - begin + 1)};
}

// The line around a random place, with its end.
Range any_line(const std::string& text, Random& random) {
  if (text.empty()) return {};
  const std::size_t at = random.below(text.size());
  const std::size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
  return {begin, end - begin};
}

// The first word behind a random place; an empty range if there is none.
Range any_word(const std::string& text, Random& random) {
  const auto from = text.begin() + static_cast<std::ptrdiff_t>(random.below(text.size() + 1));
  const auto begin = std::find_if(from, text.end(), is_word);
  const auto end = std::find_if_not(begin, text.end(), is_word);
  return {static_cast<std::size_t>(begin - text.begin()), static_cast<std::size_t>(end - begin)};
}

// Returns the digits at or behind a random place.
Range any_number(const std::string& text, Random& random) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto from = text.begin() + static_cast<std::ptrdiff_t>(random.below(text.size() + 1));
  const auto begin = std::find_if(from, text.end(), is_digit);
  const auto end = std::find_if_not(begin, text.end(), is_digit);
  return {static_cast<std::size_t>(begin - text.begin()), static_cast<std::size_t>(end - begin)};
}

void flip_bit(std::string& text, Random& random, const Material&) {
  if (text.empty()) return;
  char& c = text[random.below(text.size())];
  c = static_cast<char>(c ^ (1 << random.below(8)));
}

void set_byte(std::string& text, Random& random, const Material&) {
  if (!text.empty()) text[random.below(text.size())] = static_cast<char>(random.below(256));
}

void erase_range(std::string& text, Random& random, const Material&) {
  const Range range = any_range(text, random);
  text.erase(range.begin, range.size);
}

void copy_range(std::string& text, Random& random, const Material&) {
  const Range range = any_range(text, random);
  text.insert(random.below(text.size() + 1), text.substr(range.begin, range.size));
}

void cut_off(std::string& text, Random& random, const Material&) {
  text.resize(random.below(text.size() + 1));
}

void insert_syntax(std::string& text, Random& random, const Material&) {
  text.insert(random.below(text.size() + 1), random.pick(kSyntax));
}

// Where a value begins, it means more than elsewhere.
void insert_syntax_before_word(std::string& text, Random& random, const Material&) {
  text.insert(any_word(text, random).begin, random.pick(kSyntax));
}

void insert_word(std::string& text, Random& random, const Material& material) {
  if (!material.words.empty()) {
    text.insert(random.below(text.size() + 1), random.pick(material.words));
  }
}

void replace_word(std::string& text, Random& random, const Material& material) {
  const Range word = any_word(text, random);
  if (!material.words.empty()) text.replace(word.begin, word.size, random.pick(material.words));
}

void exchange_word(std::string& text, Random& random, const Material&) {
  const Range from = any_word(text, random);
  const std::string word = text.substr(from.begin, from.size);
  const Range to = any_word(text, random);
  text.replace(to.begin, to.size, word);
}

void quote_word(std::string& text, Random& random, const Material&) {
  const Range word = any_word(text, random);
  const char* const quote = random.one_in(2) ? "\"" : "'";
  text.insert(word.begin + word.size, quote);
  text.insert(word.begin, quote);
}

void misspell_word(std::string& text, Random& random, const Material&) {
  const Range word = any_word(text, random);
  if (word.size < 2) return;
  const std::size_t at = word.begin + random.below(word.size - 1);
  if (random.one_in(2)) {
    text.erase(at, 1);
  } else {
    std::swap(text[at], text[at + 1]);
  }
}

void set_number(std::string& text, Random& random, const Material&) {
  const Range number = any_number(text, random);
  text.replace(number.begin, number.size, random.pick(kNumbers));
}

void set_plain_number(std::string& text, Random& random, const Material&) {
  const Range number = any_number(text, random);
  const std::uint64_t value = random.next() >> (8 + random.below(56));
  text.replace(number.begin, number.size, fmt::format("{}", value));
}

void change_digit(std::string& text, Random& random, const Material&) {
  const Range number = any_number(text, random);
  if (number.size == 0) return;
  text[number.begin + random.below(number.size)] = static_cast<char>('0' + random.below(10));
}

void erase_line(std::string& text, Random& random, const Material&) {
  const Range line = any_line(text, random);
  text.erase(line.begin, line.size);
}

// A duplicate key, mostly.
void copy_line(std::string& text, Random& random, const Material&) {
  const Range from = any_line(text, random);
  text.insert(any_line(text, random).begin, text.substr(from.begin, from.size));
}

void take_line(std::string& text, Random& random, const Material& material) {
  if (material.other == nullptr) return;
  const Range from = any_line(*material.other, random);
  text.insert(any_line(text, random).begin, material.other->substr(from.begin, from.size));
}

void take_rest(std::string& text, Random& random, const Material& material) {
  if (material.other == nullptr) return;
  text.resize(any_line(text, random).begin);
  text += material.other->substr(any_line(*material.other, random).begin);
}

void indent_line(std::string& text, Random& random, const Material&) {
  const Range line = any_line(text, random);
  if (random.one_in(2) && line.size > 0 && text[line.begin] == ' ') {
    text.erase(line.begin, 1 + random.below(2));
  } else {
    text.insert(line.begin, random.one_in(20) ? 5000 : 1 + random.below(4), ' ');
  }
}

void join_lines(std::string& text, Random& random, const Material&) {
  const Range line = any_line(text, random);
  if (line.size > 0) text.erase(line.begin + line.size - 1, 1);
}

void nest(std::string& text, Random& random, const Material&) {
  const std::string_view open = random.pick(kNesting);
  std::string opened;
  for (std::size_t depth = 1 + random.small_below(100); depth > 0; --depth) opened += open;
  text.insert(random.one_in(2) ? any_word(text, random).begin : any_line(text, random).begin,
              opened);
}

// Around a word, so that the text stays well-formed.
void wrap_word(std::string& text, Random& random, std::size_t depth) {
  const Range word = any_word(text, random);
  const Pair& pair = random.pick(kPairs);
  std::string opened;
  std::string closed;
  for (; depth > 0; --depth) {
    opened += pair.open;
    closed += pair.close;
  }
  text.insert(word.begin + word.size, closed);
  text.insert(word.begin, opened);
}

void wrap(std::string& text, Random& random, const Material&) {
  wrap_word(text, random, 1 + random.small_below(40));
}

constexpr std::array<Mutation, 24> kMutations = {
    flip_bit,     set_byte,      erase_range,  copy_range,
    cut_off,      insert_syntax, insert_word,  insert_syntax_before_word,
    replace_word, exchange_word, quote_word,   misspell_word,
    set_number,   set_number,    change_digit, set_plain_number,
    erase_line,   copy_line,     take_line,    take_rest,
    indent_line,  join_lines,    nest,         wrap};

}  // namespace

std::span<const Mutation> mutations() {
  return kMutations;
}

void blow_up(std::string& text, Random& random) {
  const std::size_t wanted = std::size_t{1} << (12 + random.below(10));
  if (random.one_in(3)) return wrap_word(text, random, wanted / 4);
  const Range range = any_range(text, random);
  std::string part = text.substr(range.begin, range.size);
  if (part.empty() || random.one_in(2)) part = random.pick(kNesting);
  if (random.one_in(4)) part = random.pick(kSyntax);
  std::string many;
  while (many.size() < wanted) many += part;
  text.insert(range.begin, many);
}

std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin =
        std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_word);
    const auto end = std::find_if_not(begin, text.end(), is_word);
    if (begin != end) words.emplace_back(begin, end);
    at = static_cast<std::size_t>(end - text.begin());
  }
  std::ranges::sort(words);
  words.erase(std::ranges::unique(words).begin(), words.end());
  return words;
}

}  // namespace kernbench::fuzz
