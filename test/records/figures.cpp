#include "test/records/figures.h"

#include <array>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

namespace kernbench::records {

namespace {

// The blocks of a record outside of "## Refused".
std::vector<std::string> blocks_of(const std::string& text) {
  std::vector<std::string> blocks(1);
  std::istringstream stream(text);
  bool is_refused = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("## ")) is_refused = line == "## Refused";
    if (is_refused) continue;
    // A table belongs to the line that introduces it, which a blank line divides from it.
    const bool continues_above =
        line.starts_with("|") && blocks.size() > 1 && blocks.back().empty();
    if (continues_above) blocks.pop_back();
    if (line.empty() && !blocks.back().empty()) blocks.emplace_back();
    if (!line.empty()) blocks.back() += line + '\n';
  }
  return blocks;
}

std::vector<std::string> code_spans(const std::string& text) {
  static const std::regex kSpan("`([^`]+)`");
  std::vector<std::string> spans;
  for (std::sregex_iterator i(text.begin(), text.end(), kSpan), end; i != end; ++i) {
    spans.push_back((*i)[1]);
  }
  return spans;
}

bool shows_a_figure(const std::string& span) {
  static const std::regex kHolder(
      R"(^(run|whatif|probe|compare|draw|list|kernbench\w*|ctest|cmake|ninja)\b.*|^\./.*|)"
      R"(.*_test\b.*|.*\.(cpp|h|def|yaml|csv|txt|sh|md|py)$)");
  return std::regex_match(span, kHolder);
}

}  // namespace

std::vector<std::string> unheld_figures(const std::string& text) {
  static const std::regex kFigure(
      R"(\d[\d,.]*(\s(ps|ns|us|ms|s|CPU s|seconds|minutes|times|of (the|its) (bound|peak))\b|)"
      R"(\s?%))");
  static const std::regex kSpan("`[^`]*`");
  std::vector<std::string> figures;
  for (const std::string& block : blocks_of(text)) {
    bool is_held = false;
    for (const std::string& span : code_spans(block)) is_held |= shows_a_figure(span);
    const std::string prose = std::regex_replace(block, kSpan, "");
    std::smatch match;
    if (!is_held && std::regex_search(prose, match, kFigure)) figures.push_back(match.str());
  }
  return figures;
}

std::vector<std::string> named_paths(const std::string& text) {
  static const std::regex kPath(
      R"((runtime|sim_engine|ccl|tp|benches|topologies|test|cmake)(/[\w.-]+)*/[\w-]+\.)"
      R"((cpp|h|def|yaml|md|sh|txt|csv|py))");
  std::set<std::string> paths;
  for (const std::string& span : code_spans(text)) {
    if (std::regex_match(span, kPath)) paths.insert(span);
  }
  return {paths.begin(), paths.end()};
}

}  // namespace kernbench::records
