#include "sim_engine/config/yaml_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

const std::vector<const YamlNode*> kNoNodes;

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
    case YamlNode::Kind::quoted:
      return "the text " + in_quotes(node.text);
    default:
      return in_quotes(node.text);
  }
}

// " in cube.noc"; empty for the root.
std::string describe_place(const YamlNode& map) {
  const std::string path = make_path(map);
  return path.empty() ? "" : " in " + path;
}

// "NW,NE": a scalar, or the scalars of a list.
std::string read_value(const YamlNode& node) {
  std::string text = node.text;
  for (const YamlNode* item : node.children) text += (text.empty() ? "" : ",") + item->text;
  return text;
}

std::string join_names(std::span<const std::string_view> names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

YamlReader::YamlReader(const YamlDocument& document, std::vector<YamlKey>* keys)
    : errors_(document.errors()), failed_(document.node_count(), false), keys_(keys) {
  mark_incomplete(document.root());
}

// The keys that an incomplete map lacks are unknown, so errors derived from it would be
// meaningless.
void YamlReader::mark_incomplete(const YamlNode& node) {
  if (node.incomplete) mark_failed(node);
  for (const YamlNode* child : node.children) mark_incomplete(*child);
}

void YamlReader::mark_failed(const YamlNode& node) {
  for (const YamlNode* at = &node; at != nullptr; at = at->parent) failed_[at->id] = true;
}

void YamlReader::fail_at(const YamlNode& node, std::string_view code, std::string_view text) {
  mark_failed(node);
  if (node.kind == YamlNode::Kind::refused) return;  // reported already
  const std::string path = make_path(node);
  errors_.add(node.mark, code, fmt::format("{}{}{}", path, path.empty() ? "" : ": ", text));
}

void YamlReader::wrong_kind(const YamlNode& node, std::string_view expected) {
  fail_at(node, "KB-Y011", fmt::format("expected {}, got {}", expected, describe(node)));
}

bool YamlReader::is_scalar(const YamlNode& node, std::string_view expected) {
  if (node.kind == YamlNode::Kind::plain || node.kind == YamlNode::Kind::quoted) return true;
  wrong_kind(node, expected);
  return false;
}

YamlMap YamlReader::map(const YamlNode& node) {
  return YamlMap(*this, &node, nullptr, node.key);
}

const std::vector<const YamlNode*>& YamlReader::list(const YamlNode& node,
                                                     std::string_view example) {
  if (node.kind == YamlNode::Kind::list) return node.children;
  wrong_kind(node, fmt::format("a list such as {}", example));
  return kNoNodes;
}

std::int64_t YamlReader::integer(const YamlNode& node, std::int64_t min, std::int64_t max) {
  if (node.kind != YamlNode::Kind::plain) {
    const bool is_quoted = node.kind == YamlNode::Kind::quoted;
    wrong_kind(node, fmt::format("an integer such as {}{}", std::clamp<std::int64_t>(4, min, max),
                                 is_quoted ? " without quotes" : ""));
    return min;
  }
  const ParsedScalar scalar = parse_integer(node.text, min, max);
  if (scalar.code.empty()) return scalar.value;
  fail_at(node, scalar.code, scalar.fault);
  return min;
}

std::vector<std::int64_t> YamlReader::integers(const YamlNode& node, std::int64_t min,
                                               std::int64_t max) {
  if (node.kind != YamlNode::Kind::list) return {integer(node, min, max)};
  std::vector<std::int64_t> values;
  for (const YamlNode* item : node.children) values.push_back(integer(*item, min, max));
  if (values.empty()) fail_at(node, "KB-Y020", "needs at least one integer");
  return values;
}

std::int64_t YamlReader::quantity(const YamlNode& node, const Quantity& quantity) {
  if (!is_scalar(node, fmt::format("{} such as {}", quantity.name, quantity.example))) {
    return quantity.min;
  }
  const ParsedScalar scalar = parse_quantity(node.text, quantity);
  if (scalar.code.empty()) return scalar.value;
  fail_at(node, scalar.code, scalar.fault);
  return quantity.min;
}

std::string YamlReader::text(const YamlNode& node, std::string_view example) {
  if (!is_scalar(node, fmt::format("a text such as {}", example))) return "";
  if (node.text.empty()) fail_at(node, "KB-Y020", "may not be empty");
  return node.text;
}

std::size_t YamlReader::choice(const YamlNode& node, std::span<const std::string_view> names) {
  if (!is_scalar(node, fmt::format("one of {}", join_names(names)))) return 0;
  const auto found = std::ranges::find(names, std::string_view(node.text));
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::string_view near = nearest(shown(node.text), names);
  fail_at(node, "KB-Y020",
          fmt::format("{} is not one of {}{}", in_quotes(node.text), join_names(names),
                      near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  return 0;
}

std::vector<std::string> YamlReader::choices(const YamlNode& node,
                                             std::span<const std::string_view> names) {
  std::vector<std::string> chosen;
  for (const YamlNode* item : list(node, fmt::format("[{}]", join_names(names)))) {
    const std::size_t index = choice(*item, names);
    if (!is_fine(*item)) continue;
    if (std::ranges::find(chosen, names[index]) != chosen.end()) {
      fail_at(*item, "KB-Y020", fmt::format("'{}' is there already", names[index]));
      continue;
    }
    chosen.emplace_back(names[index]);
  }
  if (chosen.empty() && is_fine(node)) {
    fail_at(node, "KB-Y020", fmt::format("needs at least one of {}", join_names(names)));
  }
  return chosen;
}

YamlMap::~YamlMap() {
  if (node_ == nullptr) {
    // The parent reports the missing section; only now is its example known.
    if (parent_ != nullptr) parent_->note(key_).example = example();
  } else if (!is_map()) {
    reader_.wrong_kind(*node_, "a map such as " + example());
  } else {
    report_keys();
  }
}

YamlMap::Asked& YamlMap::note(std::string_view key) {
  const auto found = std::ranges::find(asked_, key, &Asked::key);
  return found != asked_.end() ? *found : asked_.emplace_back(key, "", false);
}

std::string YamlMap::path() const {
  if (node_ != nullptr) return make_path(*node_);
  const std::string above = parent_ == nullptr ? "" : parent_->path();
  return above.empty() ? std::string(key_) : fmt::format("{}.{}", above, key_);
}

void YamlMap::record(std::string_view key, std::string_view type, std::string_view allowed,
                     std::string_view unit) {
  if (reader_.keys_ == nullptr) return;
  const std::string above = path();
  const YamlNode* const node = node_ == nullptr ? nullptr : node_->find(key);
  reader_.keys_->push_back(
      {.path = above.empty() ? std::string(key) : above + '.' + std::string(key),
       .type = std::string(type),
       .unit = std::string(unit),
       .allowed = std::string(allowed),
       .value = node == nullptr ? "" : read_value(*node)});
}

bool YamlMap::has(std::string_view key) {
  note(key);
  if (reader_.keys_ != nullptr) return true;
  return node_ != nullptr && node_->find(key) != nullptr;
}

const YamlNode* YamlMap::ask(std::string_view key, std::string_view example) {
  Asked& asked = note(key);
  asked.is_required = true;
  asked.example = example;
  return node_ == nullptr ? nullptr : node_->find(key);
}

YamlMap YamlMap::map(std::string_view key) {
  return YamlMap(reader_, ask(key, "{...}"), this, key);
}

std::int64_t YamlMap::read_integer(std::string_view key, std::int64_t min, std::int64_t max) {
  const auto example = fmt::format("{}", std::clamp<std::int64_t>(4, min, max));
  if (min < max) record(key, "integer", fmt::format("{} to {}", min, max));
  const YamlNode* node = ask(key, example);
  return node == nullptr ? min : reader_.integer(*node, min, max);
}

std::vector<std::int64_t> YamlMap::integers(std::string_view key, std::int64_t min,
                                            std::int64_t max) {
  record(key, "list", fmt::format("integers from {} to {}", min, max));
  const YamlNode* node = ask(key, fmt::format("{}", std::clamp<std::int64_t>(4, min, max)));
  return node == nullptr ? std::vector<std::int64_t>{} : reader_.integers(*node, min, max);
}

std::int64_t YamlMap::quantity(std::string_view key, const Quantity& quantity) {
  record(key, quantity.kind(), quantity.may_be_unlimited ? "or unlimited" : "",
         quantity.example.substr(quantity.example.find(' ') + 1));
  const YamlNode* node = ask(key, quantity.example);
  return node == nullptr ? quantity.min : reader_.quantity(*node, quantity);
}

std::string YamlMap::text(std::string_view key, std::string_view example) {
  record(key, "text", "");
  const YamlNode* node = ask(key, example);
  return node == nullptr ? "" : reader_.text(*node, example);
}

std::size_t YamlMap::read_choice(std::string_view key, std::span<const std::string_view> names) {
  record(key, "name", join_names(names));
  const YamlNode* node = ask(key, names.front());
  return node == nullptr ? 0 : reader_.choice(*node, names);
}

bool YamlMap::boolean(std::string_view key) {
  constexpr std::array<std::string_view, 2> kNames = {"false", "true"};
  return read_choice(key, kNames) == 1;
}

std::vector<std::string> YamlMap::choices(std::string_view key,
                                          std::span<const std::string_view> names) {
  record(key, "list", join_names(names));
  const YamlNode* node = ask(key, fmt::format("[{}]", join_names(names)));
  if (node == nullptr) return {};
  return reader_.choices(*node, names);
}

std::vector<const YamlNode*> YamlMap::texts(std::string_view key, std::string_view example) {
  record(key, "list", "texts such as " + std::string(example));
  const YamlNode* const node = ask(key, example);
  std::vector<const YamlNode*> texts;
  if (node == nullptr) return texts;
  for (const YamlNode* item : reader_.list(*node, example)) {
    if (reader_.is_scalar(*item, example)) texts.push_back(item);
  }
  return texts;
}

std::optional<TextMark> YamlMap::find_mark(std::string_view key) const {
  const YamlNode* const value = is_map() ? node_->find(key) : nullptr;
  return value == nullptr ? std::nullopt : std::optional(value->mark);
}

const std::vector<const YamlNode*>& YamlMap::entries() {
  all_known_ = true;
  return is_map() ? node_->children : kNoNodes;
}

bool YamlMap::is_fine(std::initializer_list<std::string_view> keys) const {
  return std::ranges::all_of(keys, [this](std::string_view key) {
    const YamlNode* node = node_ == nullptr ? nullptr : node_->find(key);
    return node != nullptr && reader_.is_fine(*node);
  });
}

void YamlMap::fail(std::string_view code, std::string_view text) {
  if (node_ != nullptr) reader_.fail_at(*node_, code, text);
}

void YamlMap::fail(std::string_view key, std::string_view code, std::string_view text) {
  const YamlNode* node = node_ == nullptr ? nullptr : node_->find(key);
  if (node != nullptr) reader_.fail_at(*node, code, text);
}

// "{capacity: 2 MiB, latency: 100 ns}"
std::string YamlMap::example() const {
  std::string text;
  for (const Asked& asked : asked_) {
    if (!asked.is_required) continue;
    // One level of sections is enough to see what is meant.
    const bool is_section = asked.example.starts_with('{');
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", asked.key,
                        is_section ? "{...}" : asked.example);
  }
  return '{' + text + '}';
}

void YamlMap::report_keys() {
  std::vector<std::string_view> missing;
  for (const Asked& asked : asked_) {
    if (asked.is_required && node_->find(asked.key) == nullptr) missing.push_back(asked.key);
  }
  if (!all_known_) {
    for (const YamlNode* child : node_->children) {
      if (std::ranges::find(asked_, child->key, &Asked::key) == asked_.end()) {
        report_unknown(*child, missing);
      }
    }
  }
  if (node_->incomplete) return;
  for (const std::string_view key : missing) report_missing(key);
}

// A misspelt key counts as one error, not two: the key that was meant is not reported as missing.
void YamlMap::report_unknown(const YamlNode& child, std::vector<std::string_view>& missing) {
  reader_.mark_failed(child);
  if (!reader_.errors_.would_list(child.key_mark)) {
    reader_.errors_.add(child.key_mark, "KB-Y010", "");
    return;
  }
  std::vector<std::string_view> known;
  for (const Asked& asked : asked_) known.push_back(asked.key);
  std::string_view meant = nearest(shown(child.key), missing);
  std::erase(missing, meant);
  if (meant.empty()) meant = nearest(shown(child.key), known);
  reader_.errors_.add(
      child.key_mark, "KB-Y010",
      fmt::format("unknown key {}{}; {}", in_quotes(child.key), describe_place(*node_),
                  meant.empty() ? "there are: " + join_names(known)
                                : fmt::format("did you mean '{}'?", meant)));
}

void YamlMap::report_missing(std::string_view key) {
  reader_.mark_failed(*node_);
  reader_.errors_.add(node_->key_mark, "KB-Y016",
                      fmt::format("missing key '{}'{}; for example: {}: {}", key,
                                  describe_place(*node_), key, note(key).example));
}

}  // namespace kernbench
