#include "sim_engine/config/yaml_document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>

#include "sim_engine/base/error.h"
#include "sim_engine/config/input_file.h"
#include "sim_engine/config/yaml_text.h"

namespace kernbench {

namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr Bytes kMaxSize = Bytes{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

TextMark to_text_mark(const YAML::Mark& mark) {
  return {std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
}

// An error after which the rest of the text cannot be read.
struct Stop {
  TextMark mark;
  std::string_view code;
  std::string text;
};

// Builds the tree from yaml-cpp's events.  Its nodes would hide duplicate keys and expand aliases,
// by which a file of 400 bytes can make 10^8 nodes.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(ConfigErrors& errors) : errors_(errors) {}

  std::deque<YamlNode> take_nodes() { return std::move(nodes_); }
  bool is_empty() const { return nodes_.empty() || nodes_.front().kind == YamlNode::Kind::null; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (has_document_) {
      throw Stop{to_text_mark(mark), "KB-Y003", "a second document starts here; a file holds one"};
    }
    has_document_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    add(YamlNode::Kind::null, to_text_mark(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    check_tag(mark, tag);
    check_text(mark, value);
    // yaml-cpp's own tags: "?" for a plain scalar, "!" for a quoted one.
    const bool is_plain = tag != "!";
    if (wants_key()) return take_key(to_text_mark(mark), value, is_plain);
    add(is_plain ? YamlNode::Kind::plain : YamlNode::Kind::quoted, to_text_mark(mark)).text = value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(YamlNode::Kind::list, to_text_mark(mark));
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    check_tag(mark, tag);
    open(YamlNode::Kind::map, to_text_mark(mark));
  }
  void OnMapEnd() override { open_.pop_back(); }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    errors_.add(to_text_mark(mark), "KB-Y013",
                fmt::format("anchors are not supported ({}); write the value out where it is used",
                            in_quotes('&' + name)));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    errors_.add(to_text_mark(mark), "KB-Y013", "aliases are not supported; write the value out");
    add(YamlNode::Kind::refused, to_text_mark(mark));
  }

 private:
  struct Key {
    std::string text;
    TextMark mark;
    bool usable = true;  // false: reported; its value is read and dropped
  };
  // A list or map whose end has not come yet.
  struct Open {
    YamlNode* node;
    bool is_in_key;                             // part of a key, which is reported as a whole
    std::optional<Key> key = {};                // of the value that comes next
    std::map<std::string, TextMark> seen = {};  // keys so far
  };

  bool wants_key() const {
    return !open_.empty() && open_.back().node->kind == YamlNode::Kind::map && !open_.back().key;
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    errors_.add(to_text_mark(mark), "KB-Y011",
                fmt::format("tags are not supported ({})", in_quotes(tag)));
  }

  // An escape can produce a character that the file itself may not contain, and yaml-cpp turns "\_"
  // and "\N" into bytes that are no UTF-8.
  void check_text(const YAML::Mark& mark, const std::string& value) {
    const auto fault = find_bad_character(value);
    if (!fault) return;
    errors_.add(to_text_mark(mark), "KB-Y011",
                fmt::format("{} is no plain text: {}", in_quotes(value), fault->text));
  }

  void take_key(TextMark mark, const std::string& text, bool is_plain) {
    Open& map = open_.back();
    map.key = Key{text, mark};
    if (is_plain && text == "<<") {
      errors_.add(mark, "KB-Y013", "merge keys are not supported; write the values out");
      map.node->incomplete = true;
      map.key->usable = false;
      return;
    }
    const auto [first, is_new] = map.seen.try_emplace(text, mark);
    if (is_new) return;
    errors_.add(mark, "KB-Y012",
                fmt::format("duplicate key {} (first at {}:{})", in_quotes(text),
                            first->second.line, first->second.column));
    map.key->usable = false;
  }

  YamlNode& add(YamlNode::Kind kind, TextMark mark) {
    YamlNode& node = nodes_.emplace_back();
    node.kind = kind;
    node.id = nodes_.size() - 1;
    node.mark = node.key_mark = mark;
    if (!open_.empty()) attach(node, open_.back());
    return node;
  }

  void attach(YamlNode& node, Open& parent) {
    node.parent = parent.node;
    if (parent.node->kind == YamlNode::Kind::list) {
      node.position = parent.node->children.size();
      parent.node->children.push_back(&node);
    } else if (!parent.key) {  // this node is itself a key
      if (node.kind != YamlNode::Kind::refused && !parent.is_in_key) {
        errors_.add(node.mark, "KB-Y011", "a key must be a word");
      }
      parent.key = Key{"", node.mark, false};
    } else {
      node.key = parent.key->text;
      node.key_mark = parent.key->mark;
      if (parent.key->usable) parent.node->children.push_back(&node);
      parent.key.reset();
    }
  }

  void open(YamlNode::Kind kind, TextMark mark) {
    if (open_.size() == kMaxDepth) {
      throw Stop{mark, "KB-Y014", fmt::format("nesting deeper than {}", kMaxDepth)};
    }
    const bool is_in_key = wants_key() || (!open_.empty() && open_.back().is_in_key);
    open_.push_back({&add(kind, mark), is_in_key});
  }

  ConfigErrors& errors_;
  std::deque<YamlNode> nodes_;
  std::vector<Open> open_;
  bool has_document_ = false;
};

void run_parser(std::string_view text, TreeBuilder& builder) {
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    // An alias to an unknown anchor is also reported as an alias.
    const bool is_alias = error.msg.starts_with(YAML::ErrorMsg::UNKNOWN_ANCHOR);
    throw Stop{to_text_mark(error.mark), is_alias ? "KB-Y013" : "KB-Y001",
               is_alias ? "aliases are not supported; write the value out"
                        : "syntax error: " + shown(error.msg)};
  }
}

void build_tree(std::string_view text, TreeBuilder& builder) {
  if (static_cast<Bytes>(text.size()) > kMaxSize) throw Stop{{}, "KB-Y015", "larger than 1 MiB"};
  if (auto fault = find_bad_character(text)) throw Stop{fault->mark, "KB-Y001", fault->text};
  run_parser(text, builder);
  if (builder.is_empty()) throw Stop{{}, "KB-Y002", "empty document"};
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view wanted) const {
  if (kind != Kind::map) return nullptr;
  const auto found = std::ranges::find(
      children, wanted, [](const YamlNode* child) { return std::string_view(child->key); });
  return found == children.end() ? nullptr : *found;
}

std::string make_path(const YamlNode& node) {
  if (node.parent == nullptr) return "";
  const std::string parent = make_path(*node.parent);
  if (node.parent->kind == YamlNode::Kind::list)
    return fmt::format("{}[{}]", parent, node.position);
  return parent.empty() ? shown(node.key) : parent + '.' + shown(node.key);
}

YamlDocument YamlDocument::parse(std::string_view text, const std::string& file_name) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  ConfigErrors errors(file_name);
  TreeBuilder builder(errors);
  try {
    build_tree(text, builder);
  } catch (const Stop& stop) {
    errors.add(stop.mark, stop.code, stop.text);
    errors.throw_if_any();
  }
  return YamlDocument(builder.take_nodes(), std::move(errors));
}

// A key that the file does not have is added, and so are the maps around it.
YamlNode& YamlDocument::at_path(std::string_view path) {
  YamlNode* at = &nodes_.front();
  while (!path.empty()) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    at = &at_key(*at, path.substr(0, end));
    path.remove_prefix(end);
    while (path.starts_with('[')) {
      std::size_t position = 0;
      const auto [digits, error] =
          std::from_chars(path.data() + 1, path.data() + path.size(), position);
      path.remove_prefix(static_cast<std::size_t>(digits - path.data()));
      if (error != std::errc() || !path.starts_with(']') || position >= at->children.size()) {
        throw ConfigError("KB-Y010", "{}: {} has no element {}", errors_.file_name(),
                          make_path(*at), position);
      }
      at = &nodes_[at->children[position]->id];
      path.remove_prefix(1);
    }
    if (path.starts_with('.')) path.remove_prefix(1);
  }
  return *at;
}

YamlNode& YamlDocument::at_key(YamlNode& map, std::string_view key) {
  if (const YamlNode* const child = map.find(key)) return nodes_[child->id];
  map.kind = YamlNode::Kind::map;
  YamlNode& child = add_child(map);
  child.key = key;
  return child;
}

YamlNode& YamlDocument::add_child(YamlNode& parent) {
  YamlNode& node = nodes_.emplace_back();
  node.id = nodes_.size() - 1;
  node.parent = &parent;
  node.mark = node.key_mark = kNowhere;
  node.position = parent.children.size();
  parent.children.push_back(&node);
  return node;
}

void YamlDocument::change(const YamlChange& change) {
  YamlNode& node = at_path(change.path);
  node.kind = change.is_list ? YamlNode::Kind::list : YamlNode::Kind::plain;
  node.mark = kNowhere;
  node.children.clear();
  if (!change.is_list) {
    node.text = change.items.front();
    return;
  }
  for (const std::string& item : change.items) {
    YamlNode& child = add_child(node);
    child.kind = YamlNode::Kind::plain;
    child.text = item;
  }
}

YamlDocument YamlDocument::load(const std::filesystem::path& path) {
  return parse(read_input_file(path, kMaxSize), path.string());
}

}  // namespace kernbench
