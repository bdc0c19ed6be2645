#include "test/tidy/error_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <regex>
#include <string_view>
#include <utility>

namespace kernbench::tidy {

namespace {

constexpr std::string_view kTable = "benches/errors/codes_";
constexpr std::string_view kErrorHeader = "sim_engine/base/error.h";
constexpr std::size_t kCodeLength = 7;  // "KB-C002"

using LineOfCode = std::map<std::string, const Line*>;

bool is_product(const Line& line) {
  constexpr std::array<std::string_view, 5> kProduct = {"sim_engine/", "runtime/", "ccl/", "tp/",
                                                        "benches/"};
  for (const std::string_view layer : kProduct) {
    if (line.file.starts_with(layer)) return !line.file.starts_with(kTable);
  }
  return false;
}

std::string code_part(const std::string& text) {
  return text.substr(0, text.find("//"));
}

std::string place(const Line& line) {
  return fmt::format("{}:{}", line.file, line.number);
}

// Returns where each code is mentioned first.
LineOfCode codes_of_product(const Lines& lines) {
  static const std::regex kCode("KB-[A-Z][0-9]{3}");
  LineOfCode codes;
  for (const Line& line : lines) {
    if (!is_product(line) || line.text.find("KB-") == std::string::npos) continue;
    const std::string text = code_part(line.text);
    for (std::sregex_iterator at(text.begin(), text.end(), kCode), end; at != end; ++at) {
      codes.try_emplace(at->str(), &line);
    }
  }
  return codes;
}

// Returns the code of an entry of the table, which begins with a brace.
std::optional<std::string> code_of_entry(const Line& line) {
  static const std::regex kEntry(R"re(\{"(KB-[A-Z][0-9]{3})")re");
  std::smatch match;
  if (!line.file.starts_with(kTable)) return std::nullopt;
  if (!std::regex_search(line.text, match, kEntry)) return std::nullopt;
  return match[1].str();
}

using Exits = std::map<std::string, std::string>;  // enumerators of ExitCode

// The exit codes of the table; an entry's stands on the line of its code.
Exits exits_of_table(const Lines& lines) {
  static const std::regex kExit(R"(ExitCode::(\w+))");
  Exits exits;
  for (const Line& line : lines) {
    std::smatch match;
    const auto code = code_of_entry(line);
    if (code && std::regex_search(line.text, match, kExit)) exits[*code] = match[1];
  }
  return exits;
}

// The exit codes of the classes of errors, of which some have them from their bases.
Exits exits_of_classes(const Lines& lines) {
  static const std::regex kClass(R"(^class (\w+) : public (?:ErrorOf<ExitCode::(\w+)>|(\w+)))");
  Exits exits;
  for (const Line& line : lines) {
    std::smatch match;
    if (line.file != kErrorHeader || !std::regex_search(line.text, match, kClass)) continue;
    const auto base = exits.find(match[3]);
    if (match[2].matched) {
      exits[match[1]] = match[2];
    } else if (base != exits.end()) {
      exits[match[1]] = base->second;
    }
  }
  return exits;
}

// The lines of a file as one text, since a class and its code may stand on two of them.
struct File {
  std::string name;
  std::string text;
};

std::vector<File> files_of_product(const Lines& lines) {
  std::vector<File> files;
  for (const Line& line : lines) {
    if (!is_product(line)) continue;
    if (files.empty() || files.back().name != line.file) files.push_back({line.file, ""});
    files.back().text += code_part(line.text) + '\n';
  }
  return files;
}

struct Thrown {
  std::string code;
  std::ptrdiff_t line = 1;
  std::string type = {};
  std::string exit = {};  // that is given beside the code; empty: the type's
};

// Returns what is made by a text that ends before a code and goes on behind it.
Thrown read_throw(std::string_view before, std::string_view behind) {
  static const std::regex kType(R"((\w+)\(\s*$)");
  static const std::regex kExit(R"(ExitCode::(\w+))");
  Thrown thrown{.code = std::string(behind.substr(0, kCodeLength))};
  std::match_results<std::string_view::const_iterator> match;
  constexpr std::size_t kNear = 80;  // a type and its code stand in two lines at most
  const std::string_view near = before.substr(before.size() - std::min(before.size(), kNear));
  if (std::regex_search(near.begin(), near.end(), match, kType)) thrown.type = match[1];
  const std::string_view rest = behind.substr(0, behind.find(";\n"));
  if (std::regex_search(rest.begin(), rest.end(), match, kExit)) thrown.exit = match[1];
  return thrown;
}

std::vector<Thrown> throws_in(std::string_view text) {
  constexpr std::string_view kStart = "\"KB-";
  std::vector<Thrown> all;
  for (auto at = text.find(kStart); at != text.npos; at = text.find(kStart, at + 1)) {
    all.push_back(read_throw(text.substr(0, at), text.substr(at + 1)));
    all.back().line += std::ranges::count(text.substr(0, at), '\n');
  }
  return all;
}

}  // namespace

Offences check_error_codes(const Lines& lines) {
  Offences offences;
  LineOfCode table;
  for (const Line& line : lines) {
    const auto code = code_of_entry(line);
    if (!code || table.try_emplace(*code, &line).second) continue;
    offences.push_back(fmt::format("{}: {} is there twice", place(line), *code));
  }
  const LineOfCode product = codes_of_product(lines);
  for (const auto& [code, line] : product) {
    if (table.contains(code)) continue;
    offences.push_back(
        fmt::format("{}: {} is not in {}*.cpp: add it there", place(*line), code, kTable));
  }
  for (const auto& [code, line] : table) {
    if (product.contains(code)) continue;
    offences.push_back(fmt::format("{}: the product has no {}", place(*line), code));
  }
  return offences;
}

Offences check_exit_codes(const Lines& lines) {
  Offences offences;
  const Exits classes = exits_of_classes(lines);
  const Exits table = exits_of_table(lines);
  for (const File& file : files_of_product(lines)) {
    for (const Thrown& thrown : throws_in(file.text)) {
      const auto known = classes.find(thrown.type);
      const auto entry = table.find(thrown.code);
      if (entry == table.end() || (known == classes.end() && thrown.type != "Error")) continue;
      const std::string& exit =
          thrown.exit.empty() && known != classes.end() ? known->second : thrown.exit;
      if (exit.empty() || exit == entry->second) continue;
      offences.push_back(fmt::format("{}:{}: {} is thrown with ExitCode::{}, and the table has {}",
                                     file.name, thrown.line, thrown.code, exit, entry->second));
    }
  }
  return offences;
}

}  // namespace kernbench::tidy
