#include "benches/calibration/yaml_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>

#include "sim_engine/base/check.h"
#include "sim_engine/base/line_width.h"
#include "sim_engine/config/yaml_document.h"

namespace kernbench::benches::calibration {

namespace {

std::size_t offset_of(std::string_view text, TextMark mark) {
  std::size_t at = 0;
  for (int line = 1; line < mark.line; ++line) at = text.find('\n', at) + 1;
  return at + static_cast<std::size_t>(mark.column) - 1;
}

std::size_t line_start(std::string_view text, std::size_t at) {
  if (at == 0) return 0;
  const std::size_t end = text.rfind('\n', at - 1);
  return end == std::string_view::npos ? 0 : end + 1;
}

bool is_blank(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

// A node on the way to a key, and what of the path lies behind it.
struct Reached {
  const YamlNode* node;
  std::string_view rest;
};

Reached follow(const YamlNode& root, std::string_view path) {
  const YamlNode* at = &root;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    const YamlNode* const child = end == 0 ? at : at->find(path.substr(0, end));
    if (child == nullptr) break;
    at = child;
    path.remove_prefix(end);
    while (path.starts_with('[')) {
      std::size_t position = 0;
      std::from_chars(path.data() + 1, path.data() + path.size(), position);
      KB_CHECK(position < at->children.size(), "no element {}", path);
      at = at->children[position];
      path.remove_prefix(path.find(']') + 1);
    }
    if (path.starts_with('.')) path.remove_prefix(1);
  }
  return {at, path};
}

// Where a scalar ends that begins there.  A plain one may be written over several lines, which are
// joined by a space.
std::size_t end_of_scalar(std::string_view text, std::size_t begin, const YamlNode& node) {
  std::size_t at = begin;
  if (node.kind == YamlNode::Kind::quoted) {
    at = text.find(text[begin], begin + 1);
    return at == std::string_view::npos ? text.size() : at + 1;
  }
  for (const char c : node.text) {
    if (c != ' ') {
      ++at;
      continue;
    }
    while (at < text.size() && is_blank(text[at])) ++at;
  }
  return at;
}

// "a.b" with the value 1 is "a: {b: 1}".
std::string nested(std::string_view path, const std::string& value) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return fmt::format("{}: {}", path, value);
  return fmt::format("{}: {{{}}}", path.substr(0, dot), nested(path.substr(dot + 1), value));
}

// Adds the rest of a path to the map that has been reached; returns where it stands.
std::size_t add_key(std::string& text, const Reached& reached, const std::string& value) {
  const YamlNode& map = *reached.node;
  std::string added = nested(reached.rest, value);
  if (map.kind != YamlNode::Kind::map) {  // a key without a value
    const std::size_t at = text.find(':', offset_of(text, map.key_mark)) + 1;
    text.insert(at, fmt::format(" {{{}}}", added));
    return at;
  }
  const std::size_t at = offset_of(text, map.mark);
  if (text[at] == '{') {
    text.insert(at + 1, added + (map.children.empty() ? "" : ", "));
    return at;
  }
  const auto indent = static_cast<std::size_t>(map.mark.column) - 1;
  text.insert(at, added + '\n' + std::string(indent, ' '));
  return at;
}

std::string comment_head(const std::string& name) {
  return fmt::format("# {}: ", name);
}

std::string_view without_indent(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return line;
}

constexpr std::string_view kContinued = "#     ";

void drop_comment(std::string& text, const std::string& name) {
  const std::string head = comment_head(name);
  bool drops = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = without_indent(std::string_view(text).substr(at, end - at));
    drops = line.starts_with(head) || (drops && line.starts_with(kContinued));
    drops ? void(text.erase(at, end - at)) : void(at = end);
  }
}

void add_comment(std::string& text, std::size_t at, const PutValue& value) {
  if (value.comment.empty()) return;
  const std::size_t begin = line_start(text, at);
  const std::size_t first = std::min(text.find_first_not_of(' ', begin), text.size());
  const std::string indent(first - begin, ' ');
  const std::string lines =
      wrapped(indent + comment_head(value.name) + value.comment, indent + std::string(kContinued));
  text.insert(begin, lines + '\n');
}

void put_value(std::string& text, const std::string& file, const PutValue& value) {
  drop_comment(text, value.name);
  const YamlDocument document = YamlDocument::parse(text, file);
  const Reached reached = follow(document.root(), value.path);
  std::size_t at = 0;
  if (reached.rest.empty()) {
    at = offset_of(text, reached.node->mark);
    text.replace(at, end_of_scalar(text, at, *reached.node) - at, value.text);
  } else {
    at = add_key(text, reached, value.text);
  }
  add_comment(text, at, value);
}

}  // namespace

std::string put_values(std::string_view text, const std::string& file,
                       std::span<const PutValue> values) {
  std::string changed(text);
  for (const PutValue& value : values) put_value(changed, file, value);
  return changed;
}

}  // namespace kernbench::benches::calibration
