// Reads a YamlDocument into plain data.  Errors are collected, not thrown: every getter returns
// some value of its type (the least one after an error), and finish() throws them all at once.
//
//   SramSpec sram_of(YamlMap sram) {
//     return {.capacity = sram.bytes("capacity", 1, kTebibyte),
//             .bandwidth = sram.bandwidth("bandwidth"),
//             .latency = sram.time("latency")};
//   }                           // here: keys that nobody asked for, and keys that were not there
//   ...
//   YamlReader reader(document);
//   const SramSpec sram = sram_of(reader.map(document.root()));
//   reader.finish();            // throws if anything was wrong

#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/config/yaml_document.h"
#include "sim_engine/config/yaml_scalar.h"

namespace kernbench {

class YamlMap;

// Getters for a node.  A wrong form (a list, a missing unit, quotes) is KB-Y011, a wrong value
// (out of range, no such name) is KB-Y020.
class YamlReader {
 public:
  // `keys`, if it is given, gets every key that the file could have, in the order in which they are
  // asked for.  Then has() says yes to all keys, and nothing is an error.
  explicit YamlReader(const YamlDocument& document, std::vector<YamlKey>* keys = nullptr);
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;

  YamlMap map(const YamlNode& node);
  const std::vector<const YamlNode*>& list(const YamlNode& node, std::string_view example);
  std::int64_t integer(const YamlNode& node, std::int64_t min, std::int64_t max);
  // One integer, or a list of one or more.
  std::vector<std::int64_t> integers(const YamlNode& node, std::int64_t min, std::int64_t max);
  std::int64_t quantity(const YamlNode& node, const Quantity& quantity);  // in base units
  std::string text(const YamlNode& node, std::string_view example);
  // The index of the scalar's text in `names`; 0 after an error.  REQUIRES: `names` is not empty
  std::size_t choice(const YamlNode& node, std::span<const std::string_view> names);
  // A list of one or more different names.
  std::vector<std::string> choices(const YamlNode& node, std::span<const std::string_view> names);

  // Adds "<path>: <text>" at `node`.  `code` must be a literal.
  void fail_at(const YamlNode& node, std::string_view code, std::string_view text);

  // False if an error was found at `node` or inside it.
  bool is_fine(const YamlNode& node) const { return !failed_[node.id]; }

  void finish() const {
    if (keys_ == nullptr) errors_.throw_if_any();
  }

 private:
  friend class YamlMap;

  void mark_failed(const YamlNode& node);
  void mark_incomplete(const YamlNode& node);
  void wrong_kind(const YamlNode& node, std::string_view expected);
  bool is_scalar(const YamlNode& node, std::string_view expected);

  ConfigErrors errors_;
  std::vector<bool> failed_;  // by node id
  std::vector<YamlKey>* keys_;
};

// Getters for the values of a map by key.  A key is required unless has() was asked first and said
// no.  When the YamlMap goes out of scope, it reports keys that are missing (KB-Y016, with an
// example of a right value) and keys that nobody asked for (KB-Y010).  Keys must outlive it.
class YamlMap {
 public:
  ~YamlMap();
  YamlMap(const YamlMap&) = delete;
  YamlMap& operator=(const YamlMap&) = delete;

  // True if the map has `key`.  Also makes `key` known but not required.
  bool has(std::string_view key);

  YamlMap map(std::string_view key);
  template <class Int>
  Int integer(std::string_view key, Int min, Int max) {
    return static_cast<Int>(read_integer(key, min, max));
  }
  std::vector<std::int64_t> integers(std::string_view key, std::int64_t min, std::int64_t max);
  Time time(std::string_view key) { return Time{quantity(key, time_quantity())}; }
  Bytes bytes(std::string_view key, Bytes min, Bytes max) {
    return quantity(key, bytes_quantity(min, max));
  }
  Bandwidth bandwidth(std::string_view key) { return {quantity(key, bandwidth_quantity())}; }
  Share share(std::string_view key) { return {static_cast<int>(quantity(key, share_quantity()))}; }
  std::int64_t energy_of_operation(std::string_view key) {  // in fJ
    return quantity(key, operation_energy_quantity());
  }
  std::int64_t energy_of_byte(std::string_view key) {  // in fJ
    return quantity(key, byte_energy_quantity());
  }
  Frequency frequency(std::string_view key) { return {quantity(key, frequency_quantity())}; }
  std::string text(std::string_view key, std::string_view example);
  // The element of `values` whose name_of() is the key's value.
  template <class Enum, std::size_t n>
  Enum choice(std::string_view key, const std::array<Enum, n>& values) {
    std::array<std::string_view, n> names;
    for (std::size_t i = 0; i < n; ++i) names[i] = name_of(values[i]);
    return values[read_choice(key, names)];
  }
  bool boolean(std::string_view key);  // true or false
  std::vector<std::string> choices(std::string_view key, std::span<const std::string_view> names);
  // The texts of a list, of which those that are wrong are told by fail_at().
  std::vector<const YamlNode*> texts(std::string_view key, std::string_view example);
  void fail_at(const YamlNode& node, std::string_view code, std::string_view text) {
    reader_.fail_at(node, code, text);
  }

  // Returns where the value of a key is written; nullopt if it is not there.
  std::optional<TextMark> find_mark(std::string_view key) const;

  // The user chooses the keys of some maps.  For these entries() returns all values (YamlNode::key
  // names them) and makes their keys known; map() reads one of them as a map.
  const std::vector<const YamlNode*>& entries();
  YamlMap map(const YamlNode& entry) { return reader_.map(entry); }

  // True if all of `keys` are there and no error was found in them.
  bool is_fine(std::initializer_list<std::string_view> keys) const;

  // Reports an error of the whole map, or of the value of `key`; does nothing if the map or the
  // value is missing.
  void fail(std::string_view code, std::string_view text);
  void fail(std::string_view key, std::string_view code, std::string_view text);

 private:
  friend class YamlReader;

  struct Asked {
    std::string_view key;
    std::string example;
    bool is_required;
  };

  // `node` may be absent or of another kind; `parent` is the map that `key` was asked of.
  YamlMap(YamlReader& reader, const YamlNode* node, YamlMap* parent, std::string_view key)
      : reader_(reader), node_(node), parent_(parent), key_(key) {}

  bool is_map() const { return node_ != nullptr && node_->kind == YamlNode::Kind::map; }
  Asked& note(std::string_view key);
  // The node of `key`, or nullptr if it is missing.
  const YamlNode* ask(std::string_view key, std::string_view example);
  std::int64_t read_integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::int64_t quantity(std::string_view key, const Quantity& quantity);
  std::size_t read_choice(std::string_view key, std::span<const std::string_view> names);
  std::string path() const;
  void record(std::string_view key, std::string_view type, std::string_view allowed,
              std::string_view unit = {});
  std::string example() const;
  void report_keys();
  void report_unknown(const YamlNode& child, std::vector<std::string_view>& missing);
  void report_missing(std::string_view key);

  YamlReader& reader_;
  const YamlNode* node_;
  YamlMap* parent_;
  std::string_view key_;
  std::vector<Asked> asked_;
  bool all_known_ = false;
};

}  // namespace kernbench
