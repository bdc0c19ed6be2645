#include "test/runner/junit.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

namespace kernbench::runner {

namespace {

constexpr std::string_view kName = " name=\"";

// The case to which an element of that name, as it stands in XML, belongs; empty if there is none.
std::string case_of(const std::string& name, const std::vector<std::string>& cases) {
  for (const std::string& one : cases) {
    const std::string prefix = escaped(one);
    if (name == prefix || name.starts_with(prefix + "/")) return one;
  }
  return "";
}

std::string name_attribute(const std::string& line) {
  const std::size_t begin = line.find(kName);
  if (begin == std::string::npos) return "";
  const std::size_t from = begin + kName.size();
  return line.substr(from, line.find('"', from) - from);
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '&':
        result += "&amp;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::map<std::string, std::string> failures_of(const std::filesystem::path& report,
                                               const std::vector<std::string>& cases) {
  std::map<std::string, std::string> failures;
  std::ifstream stream(report);
  std::string current;
  for (std::string line; std::getline(stream, line);) {
    const std::size_t indent = line.find_first_not_of(' ');
    const std::string_view text = std::string_view(line).substr(std::min(indent, line.size()));
    if (text.starts_with("<testcase ")) {
      current = text.ends_with("/>") ? "" : case_of(name_attribute(line), cases);
    } else if (text.starts_with("</testcase>")) {
      current.clear();
    } else if (!current.empty()) {
      failures[current] += line + "\n";
    }
  }
  return failures;
}

int Suite::failure_count() const {
  int count = 0;
  for (const auto& one : outcomes) count += one.second.passed ? 0 : 1;
  return count;
}

double Suite::seconds() const {
  double sum = 0;
  for (const auto& one : outcomes) sum += one.second.seconds;
  return sum;
}

void write_junit(const std::vector<Suite>& suites, const std::filesystem::path& file) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const Suite& suite : suites) {
    text += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" time=\"{:.3f}\">\n",
                        escaped(suite.name), suite.cases.size(), suite.failure_count(),
                        suite.seconds());
    for (const std::string& name : suite.cases) {
      const Outcome& outcome = suite.outcomes.at(name);
      text += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                          escaped(suite.name), escaped(name), outcome.seconds);
      text += outcome.passed ? "/>\n" : ">\n" + outcome.text + "    </testcase>\n";
    }
    text += "  </testsuite>\n";
  }
  text += "</testsuites>\n";
  std::ofstream stream(file);
  stream << text;
  if (!stream.flush()) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace kernbench::runner
