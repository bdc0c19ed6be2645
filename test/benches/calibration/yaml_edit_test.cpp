// Values that are put into the text of a YAML file.

#include "benches/calibration/yaml_edit.h"

#include <catch2/catch.hpp>

#include "sim_engine/config/yaml_document.h"

namespace kernbench::test::yaml_edit_test {
namespace {

using benches::calibration::PutValue;

std::string put(const std::string& text, const std::vector<PutValue>& values) {
  std::string changed = benches::calibration::put_values(text, "t.yaml", values);
  YamlDocument::parse(changed, "t.yaml");  // it is YAML still
  return changed;
}

const std::string kFile =
    "# A machine.\n"
    "a:\n"
    "  b: 1 us  # why\n"
    "  c: {d: 2 ns, e: 'three', f: {}}\n"
    "list:\n"
    "  - LL: {up_to: 64 KiB, start: 9.2 us,\n"
    "         efficiency: 5 %}  # one channel\n"
    "  - Simple:\n"
    "      start: 24 us\n";

TEST_CASE("a value replaces the one that a file has, and nothing else", "[calibration]") {
  CHECK(put(kFile, {{"b", "a.b", "1.5 us", ""}}).find("  b: 1.5 us  # why\n") != std::string::npos);
  CHECK(put(kFile, {{"d", "a.c.d", "20 ns", ""}}).find("c: {d: 20 ns, e: 'three', f: {}}") !=
        std::string::npos);
  CHECK(put(kFile, {{"e", "a.c.e", "4", ""}}).find("e: 4, f") != std::string::npos);
  CHECK(put(kFile, {{"s", "list[1].Simple.start", "2 us", ""}}).ends_with("      start: 2 us\n"));
  const std::string split = "a: {b: 1\n      us, c: 2}\n";
  CHECK(put(split, {{"b", "a.b", "3 us", ""}}) == "a: {b: 3 us, c: 2}\n");
}

TEST_CASE("a comment stands above the line of its value, and is replaced by the next",
          "[calibration]") {
  const std::string once = put(kFile, {{"LL.start", "list[0].LL.start", "8 us", "fitted"},
                                       {"LL.eff", "list[0].LL.efficiency", "7 %", "fitted too"}});
  CHECK(once.find("list:\n"
                  "  # LL.start: fitted\n"
                  "  - LL: {up_to: 64 KiB, start: 8 us,\n"
                  "         # LL.eff: fitted too\n"
                  "         efficiency: 7 %}  # one channel\n") != std::string::npos);
  const std::string twice = put(once, {{"LL.start", "list[0].LL.start", "8 us", "again"},
                                       {"LL.eff", "list[0].LL.efficiency", "7 %", "fitted too"}});
  CHECK(twice.find("fitted\n") == std::string::npos);
  CHECK(twice.find("  # LL.start: again\n  - LL") != std::string::npos);
  CHECK(twice.size() == once.size() - 1);
}

TEST_CASE("a long comment goes on in lines of its own, which are replaced with it",
          "[calibration]") {
  std::string words = "word";
  for (int i = 0; i < 60; ++i) words += " word";
  const std::string text = put(kFile, {{"b", "a.b", "2 us", words}});
  CHECK(text.find("\n  #     word") != std::string::npos);
  CHECK(put(text, {{"b", "a.b", "1 us", ""}}) == kFile);
}

TEST_CASE("a key that a file does not have is added to its map", "[calibration]") {
  CHECK(put("a: {}\n", {{"b", "a.b", "1", ""}}) == "a: {b: 1}\n");
  CHECK(put("a: {c: 2}\n", {{"b", "a.b", "1", ""}}) == "a: {b: 1, c: 2}\n");
  CHECK(put("a:\n  c: 2\n", {{"b", "a.b", "1", ""}}) == "a:\n  b: 1\n  c: 2\n");
  CHECK(put("a:\nd: 3\n", {{"b", "a.b", "1", ""}}) == "a: {b: 1}\nd: 3\n");
  CHECK(put("# A.\nd: 3\n", {{"b", "a.b.c", "1", "new"}}) ==
        "# A.\n# b: new\na: {b: {c: 1}}\nd: 3\n");
  CHECK(put("l:\n  - LL:\n      start: 1 us\n", {{"x", "l[0].LL.latency", "2 us", ""}}) ==
        "l:\n  - LL:\n      latency: 2 us\n      start: 1 us\n");
}

}  // namespace
}  // namespace kernbench::test::yaml_edit_test
