#include "test/fuzz/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <typeinfo>

#include "sim_engine/base/visible_text.h"

namespace kernbench::fuzz {

namespace {

// Twenty errors of one file, each with a path of 32 keys, stay below it.
constexpr std::size_t kMaxErrorText = std::size_t{1} << 17;

Verdict finding(std::string text) {
  return {Verdict::Kind::finding, std::move(text)};
}

Verdict verdict_of_error(const Parser& parser, const Error& error) {
  const std::string_view text = error.what();
  if (error.exit_code() != parser.refusal) {
    return finding(fmt::format("exit code {} instead of {}: {}",
                               static_cast<int>(error.exit_code()),
                               static_cast<int>(parser.refusal), text));
  }
  if (text.find("[" + error.code() + "]") == std::string_view::npos) {
    return finding(fmt::format("the text does not show the code {}: {}", error.code(), text));
  }
  if (text.size() > kMaxErrorText) {
    return finding(fmt::format("an error text of {} bytes", text.size()));
  }
  if (visible_lines(text) != text) {
    return finding(fmt::format("an error text that a terminal obeys: {}", visible_lines(text)));
  }
  return {Verdict::Kind::refused, std::string(text)};
}

}  // namespace

std::span<const Parser> parsers() {
  static const std::array<Parser, 7> all = {
      topology_yaml::parser(), ccl_yaml::parser(), settings::parser(), command_line::parser(),
      operands::parser(),      journal::parser(),  ranges::parser()};
  return all;
}

const Parser* find_parser(std::string_view name) {
  const auto found = std::ranges::find(parsers(), name, &Parser::name);
  return found == parsers().end() ? nullptr : &*found;
}

Verdict verdict_of(const Parser& parser, std::string_view input) {
  try {
    parser.check(input);
    return {};
  } catch (const Finding& found) {
    return finding(found.what());
  } catch (const Error& error) {
    return verdict_of_error(parser, error);
  } catch (const std::exception& other) {
    return finding(fmt::format("threw {}: {}", typeid(other).name(), other.what()));
  } catch (...) {
    return finding("threw what is no std::exception");
  }
}

std::vector<std::string> words_of(std::string_view input) {
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (input[i] == '\\' && i + 1 < input.size() && input[i + 1] == '\n') {
      words.back() += input[++i];
    } else if (input[i] == '\n') {
      words.emplace_back();
    } else {
      words.back() += input[i];
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace kernbench::fuzz
