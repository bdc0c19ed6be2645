// A YAML file as a small immutable tree, independent of the YAML library.  Stricter than YAML: no
// anchors, aliases, merge keys or tags, one document, no duplicate keys, no tabs, bounded size and
// depth.

#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/yaml_key.h"

namespace kernbench {

struct YamlNode {
  enum class Kind : std::uint8_t {
    null,
    plain,   // a scalar without quotes
    quoted,  // a scalar that YAML takes for a text, whatever it looks like
    list,
    map,
    refused,  // an alias: already reported
  };

  Kind kind = Kind::null;
  bool incomplete = false;  // a map with a merge key (reported): its missing keys are unknown
  std::size_t id = 0;       // number of the node in the document
  TextMark mark;            // where the value starts
  TextMark key_mark;        // where its key starts, if it is in a map; else `mark`
  const YamlNode* parent = nullptr;
  std::string key;           // if the parent is a map
  std::size_t position = 0;  // if the parent is a list
  std::string text;          // of a scalar
  std::vector<const YamlNode*> children;

  // The value of `key`; nullptr if there is none, or if this is not a map.
  const YamlNode* find(std::string_view wanted) const;
};

// "cube.pe_layout.corners[2]"; empty for the root.
std::string make_path(const YamlNode& node);

class YamlDocument {
 public:
  YamlDocument(YamlDocument&&) = default;  // a copy's nodes would point into the original

  // Throws ConfigError if no tree can be built: KB-Y001 syntax or encoding, KB-Y002 empty, KB-Y003
  // two documents, KB-Y014 too deep, KB-Y015 too large.  Other errors are kept for the YamlReader.
  static YamlDocument parse(std::string_view text, const std::string& file_name);

  // Parses a file; throws ConfigError KB-I001 if it cannot be read.
  static YamlDocument load(const std::filesystem::path& path);

  // Gives a key another value.  Its place in the file is then unknown: errors name its path alone.
  // Call it before a YamlReader is made.  Throws ConfigError KB-Y010 for an element of a list, as
  // in "rules[1].all_gather.up_to", that the file does not have.
  void change(const YamlChange& change);

  const YamlNode& root() const { return nodes_.front(); }
  std::size_t node_count() const { return nodes_.size(); }

  // Errors that do not prevent a tree: KB-Y011 keys, tags and escapes, KB-Y012 duplicate keys,
  // KB-Y013 anchors, aliases and merge keys.
  const ConfigErrors& errors() const { return errors_; }

 private:
  YamlDocument(std::deque<YamlNode> nodes, ConfigErrors errors)
      : nodes_(std::move(nodes)), errors_(std::move(errors)) {}

  YamlNode& at_path(std::string_view path);
  YamlNode& at_key(YamlNode& map, std::string_view key);
  YamlNode& add_child(YamlNode& parent);

  std::deque<YamlNode> nodes_;  // a deque: nodes point at each other
  ConfigErrors errors_;
};

}  // namespace kernbench
