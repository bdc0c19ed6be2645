// Reads what the figures write, and nothing less strict: a document that is not well-formed fails
// the test.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kernbench::test {

struct SvgElement {
  std::string name;
  std::map<std::string, std::string> attributes = {};
  std::string text = {};  // directly in it, entities resolved
  int depth = 0;          // 0: <svg>

  // Fails the test if there is no such attribute, or it is no number.
  double number(const std::string& attribute) const;
  bool has(const std::string& attribute) const { return attributes.contains(attribute); }
};

// In the order of their start tags.
using SvgElements = std::vector<SvgElement>;

SvgElements read_svg(std::string_view svg);

SvgElements named(const SvgElements& elements, const std::string& name);
// Fails the test unless there is exactly one text of these words.
SvgElement text_element(const SvgElements& elements, const std::string& words);
int count_texts(const SvgElements& elements, const std::string& words);

}  // namespace kernbench::test
