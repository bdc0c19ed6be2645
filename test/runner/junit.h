// One JUnit file for all test executables.

#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "test/runner/cases.h"

namespace kernbench::runner {

// The failures of each case, as elements of XML, from a report of Catch2's JUnit reporter.
// `cases` are the names that may occur; a section's name has its case's name before a slash.
std::map<std::string, std::string> failures_of(const std::filesystem::path& report,
                                               const std::vector<std::string>& cases);

// "a < b" as it stands in an attribute.
std::string escaped(const std::string& text);

// All cases of an executable.
struct Suite {
  std::string name;
  std::vector<std::string> cases;
  std::map<std::string, Outcome> outcomes;  // Outcome::text is XML here

  int failure_count() const;
  double seconds() const;
};

// Throws std::runtime_error if the file cannot be written.
void write_junit(const std::vector<Suite>& suites, const std::filesystem::path& file);

}  // namespace kernbench::runner
