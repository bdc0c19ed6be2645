// The keys that --set takes: those of the bench, of the topology file and of ccl.yaml.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/bench.h"

namespace kernbench::benches::variants {

enum class KeyOwner : std::uint8_t { bench, topology, ccl };

struct Key {
  // "sip.ucie.bandwidth"; of ccl.yaml "depth" for its defaults, "protocols.LL.start", and
  // "rules.2.up_to" for the second rule.
  std::string name;
  KeyOwner owner = KeyOwner::bench;
  std::string file;  // "the bench tp-mlp", "the topology default", "ccl.yaml"
  std::string path;  // in its file
  std::string type;
  std::string unit;  // of a quantity: "GB/s"; else empty
  std::string allowed;
  std::string value;  // in force if --set does not give it; empty: the help says what happens
  std::string help;

  // A list has commas of its own, so --set separates several lists by semicolons; it separates
  // several values of any other key by commas.
  bool is_list() const;
};

// The files that a run reads, and its bench.
struct KeySources {
  const BenchInfo* bench = nullptr;  // null: no bench's keys
  std::string topology = "default";
  std::string ccl = {};
};

class Keys {
 public:
  // Throws like load_topology() and load_ccl().
  explicit Keys(const KeySources& sources);

  const std::vector<Key>& all() const { return keys_; }
  // A key of the bench comes before one of ccl.yaml with the same name.  Throws UsageError KB-U011,
  // which names the nearest key, if there is one like it, and its file.
  const Key& find(std::string_view name) const;
  // Finds a key as find() does, also by an ending that no other key has: "sip_link.latency". Errors
  // begin with `option`, and name the keys that share an ending.
  const Key& find_ending(std::string_view option, std::string_view name) const;

 private:
  const Key* find_whole(std::string_view name) const;
  [[noreturn]] void refuse(std::string_view option, std::string_view name) const;

  std::vector<Key> keys_;
};

// The path of a key of ccl.yaml in another ccl.yaml, whose protocols and rules may stand in another
// order.  Throws UsageError KB-U011 if that has no key of its name.
std::string ccl_path(const Key& key, const std::string& ccl);

// Returns what a key of a topology file or of ccl.yaml means; empty if there is no such key.
std::string_view find_help(KeyOwner owner, std::string_view path);

}  // namespace kernbench::benches::variants
