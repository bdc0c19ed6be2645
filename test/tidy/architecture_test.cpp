// ARCHITECTURE.md speaks the words of the field, the glossary explains them, and what the page
// points to is there.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace kernbench::tidy::architecture_test {

namespace {

std::string read(const std::string& file) {
  std::ifstream stream(std::string(KERNBENCH_ROOT) + "/" + file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// What stands between the parentheses of links, and between backticks if it looks like a path.
std::set<std::string> paths_in(const std::string& text) {
  static const std::regex kPath("\\]\\(([^)#]+)\\)|`((?:[a-z_]+/)+[a-z_]+\\.[a-z]+)`");
  std::set<std::string> paths;
  for (std::sregex_iterator at(text.begin(), text.end(), kPath), end; at != end; ++at) {
    paths.insert((*at)[1].matched ? (*at)[1] : (*at)[2]);
  }
  return paths;
}

}  // namespace

TEST_CASE("the architecture page and the glossary have the words of the field", "[tidy]") {
  const std::string page = read("ARCHITECTURE.md");
  const std::string glossary = read("GLOSSARY.md");
  for (const std::string term :
       {"engine",     "event",       "fiber",     "rank",     "SIP",         "cube",
        "PE",         "NoC",         "HBM",       "SRAM",     "TCM",         "IPCQ",
        "credit",     "kernel",      "launch",    "stream",   "command",     "value",
        "version",    "fingerprint", "shard",     "plan",     "chunk",       "process group",
        "collective", "bucket",      "deadlock",  "topology", "lower bound", "critical path",
        "backend",    "algorithm",   "operation", "member"}) {
    CAPTURE(term);
    const std::regex word("\\b" + term + "s?\\b", std::regex::icase);
    CHECK(std::regex_search(page, word));
    const std::regex entry("\n- \\*\\*(" + term + "|" + term + ",[^*]*)\\*\\*:");
    CHECK(std::regex_search(glossary, entry));
  }
}

TEST_CASE("what the architecture page points to is there", "[tidy]") {
  for (const std::string page : {"ARCHITECTURE.md", "ARCHITECTURE.ko.md"}) {
    const std::set<std::string> paths = paths_in(read(page));
    CHECK(paths.size() > 30);
    for (const std::string& path : paths) {
      CAPTURE(page, path);
      CHECK(std::filesystem::exists(std::filesystem::path(KERNBENCH_ROOT) / path));
    }
  }
}

}  // namespace kernbench::tidy::architecture_test
