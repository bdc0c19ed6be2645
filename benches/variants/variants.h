// Variants of a run: the combinations of the values that --set gives to keys.
//
//   --set sip.ucie.bandwidth='64,128 GB/s' algorithm=ring_allreduce,tree_allreduce
//
// are four of them.  Each has a topology, a ccl.yaml and settings of its own, all of them checked
// before anything is simulated.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/variants/keys.h"
#include "sim_engine/faults/fault.h"

namespace kernbench::benches::variants {

// A key and one value of it.  A null key is the topology itself.
struct Choice {
  const Key* key = nullptr;
  std::string value;
};

// A cell of a variant's rows that tells what varies.
struct VariedCell {
  std::string key;
  std::string value;
  bool is_list = false;
};

struct Variant {
  std::string name;  // of what varies: "sip.ucie.bandwidth=64 GB/s depth=4"
  std::vector<VariedCell> varied = {};
  std::vector<Assignment> fixed = {};  // what --set gives and does not vary
  Topology topology;
  ccl::Config ccl;
  bool names_ccl = false;       // --ccl or a key of ccl.yaml is given
  bool names_ccl_file = false;  // --ccl is given
  std::string ccl_name = {};    // ccl_name() of what is in force
  Settings settings;
  bool is_recorded = true;  // as the run asks for it (ContextSet::recording())
};

// The command line's part of a sweep over variants.
struct VariantRequest {
  const BenchInfo* bench = nullptr;
  std::string topologies = "default";  // one, or several between commas
  std::string ccl = {};
  std::vector<std::string> assignments = {};
  std::vector<std::string> faults = {};  // besides those of the topologies
};

// The request of that variant alone.
VariantRequest make_request(const VariantRequest& whole, const Variant& variant);

// Makes variants of the runs of a bench.
class VariantMaker {
 public:
  // Throws what the files' readers throw, and Keys::find(); UsageError KB-U012 for a fault that is
  // none, and makes none with one that names no part of its machine: ConfigError KB-Y051.
  explicit VariantMaker(const VariantRequest& request);

  const Keys& keys() const { return keys_; }
  bool is_set(const Key& key) const;  // by --set
  // The number of combinations, which may be too many to be made.
  std::size_t count() const;
  // All of them, the last key's values following each other; with further values for keys that
  // --set does not vary.
  std::vector<Variant> all(std::span<const Choice> more = {}) const;
  // The first combination, with further values.
  Variant first(std::span<const Choice> more = {}) const;

  // The texts of all files, and of all values that do not vary.
  std::string inputs() const;
  // "sip.ucie.bandwidth: 64 GB/s, 128 GB/s"; a line for each key that varies.
  std::vector<std::string> axes() const;

 private:
  struct Axis {
    const Key* key = nullptr;  // null: the topology
    std::vector<std::string> values;
  };

  void add(const Assignment& assignment);
  Variant make(std::vector<Choice> choices, std::span<const Choice> more) const;
  Topology make_topology(const std::string& name, const std::vector<Choice>& changes) const;
  Topology read_topology(const std::string& name, const std::vector<Choice>& changes) const;
  ccl::Config make_ccl(const std::string& name, const std::vector<Choice>& changes) const;
  std::vector<Choice> choices_at(std::size_t index) const;

  const VariantRequest request_;
  std::vector<std::string> topologies_;
  const Keys keys_;
  std::vector<Axis> axes_;
  std::vector<Fault> faults_;
};

}  // namespace kernbench::benches::variants
