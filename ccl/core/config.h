// ccl.yaml: selects the algorithm and its queues.
//
//   defaults:
//     algorithm: intercube_allreduce
//     buffer_kind: tcm          # of the queues: tcm, sram or hbm
//     depth: 4                  # slots of a queue
//     slot: 16 KiB              # what one slot holds
//     eager: 1 KiB              # messages up to this size need no posted receive; 0 B: all do
//     wait: sleep               # for messages and credits: sleep (until woken) or poll
//     n_elem: [1024, 49152]     # what benches sweep when they are not told; a list or one number
//   algorithms:
//     intercube_allreduce: {buffer_kind: sram, root: corner}
//     my_ring_of_pes: {kernel: ring_allreduce, world_size: 8}
//   rules:                      # ccl/core/config_rules.h
//     - all_reduce: {algorithm: tree_allreduce, up_to: 4 KiB}
//   protocols:                  # likewise
//     - LL: {up_to: 64 KiB, latency: 600 ns, efficiency: 50 %}
//
// Every key may be left out; an algorithm's entry overrides the defaults.  The further keys are:
//
//   poll_interval   beside `wait: poll`: how often it looks, 100 ns if it is not given
//   world_size      rank = PE: the first world_size PEs take part, for a single driver (ADR-0024).
//                   Without it a rank is a SIP.
//   participants    of a SIP: shard_holders, or one_pe_per_sip, whose ports between SIPs are called
//                   east, west, north and south.  Not together with world_size.
//   root            of the tree over cubes: center, corner, first_corner or auto
//   neighbours      rank = PE: how the PEs are joined, as a ring, grid or tree; else as the
//                   algorithm wants it.  auto gives each algorithm what it wants.
//
// `algorithm: auto` chooses, for each size, the algorithm that is fastest by the model, among
// those with Algorithm::suits_auto.

#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/core/algorithm.h"
#include "runtime/distributed/options.h"
#include "sim_engine/topology/topology.h"

namespace kernbench {
class YamlDocument;
struct YamlKey;
}  // namespace kernbench

namespace kernbench::ccl {

// The participants on a SIP: every PE that holds a shard, or the SIP's first PE alone.
enum class Participants : std::uint8_t { shard_holders, one_pe_per_sip };
inline constexpr std::array kParticipants = {Participants::shard_holders,
                                             Participants::one_pe_per_sip};
std::string_view name_of(Participants participants);

inline constexpr std::array kRoots = {Root::center, Root::corner, Root::first_corner};
inline constexpr std::array kRootChoices = {Root::center, Root::corner, Root::first_corner,
                                            Root::automatic};
std::string_view name_of(Root root);

// The name that selects the fastest algorithm.
inline constexpr std::string_view kAuto = "auto";

struct Protocol;
struct Rule;

class Config : public distributed::BackendConfig {
 public:
  // Holds the built-in defaults.
  Config();

  // Throws ConfigError, which lists all errors at once (KB-Y...); KB-Y040 for an unknown
  // algorithm.
  static Config parse(std::string_view text, const std::string& name = "ccl.yaml");
  static Config load(const std::string& path);
  static Config load(std::same_as<std::string_view> auto path) { return load(std::string(path)); }
  // Reads a document whose keys a program may have changed (YamlDocument::change()).  `keys`, if it
  // is given, gets every key that the file could have; then nothing is an error.
  static Config read(const YamlDocument& document, std::vector<YamlKey>* keys = nullptr);

  // The settings in force.
  const std::string& algorithm_name() const;
  // True if the file's defaults, or with_algorithm(), name the algorithm.
  bool names_algorithm() const;
  // True if one of them names that of all_reduce in every group.
  bool names_all_reduce() const;
  // The text that with_algorithm() was given; algorithm_name() if it was not called.
  const std::string& choice_text() const;
  bool is_auto() const { return algorithm_name() == kAuto; }
  const Algorithm& algorithm() const;  // REQUIRES: !is_auto()
  // The algorithms that `auto` chooses among, on every network and in every group; the named one
  // alone if it is not `auto`.
  std::vector<const Algorithm*> candidates() const;
  // The rule that decides for a collective; nullptr if none does.  `group`: its description.
  const Rule* rule_for(distributed::CollectiveKind kind, int ranks, Bytes bytes,
                       std::string_view group = {}) const;
  // The rules that may decide for such a group, in the order in which they are tried.
  std::vector<const Rule*> select_rules(int ranks, std::string_view group) const;
  // The protocol of the messages of a collective of this size; nullptr if there is none.  `rule` is
  // the one that decides for it, if any.
  const Protocol* protocol_for(Bytes size, const Rule* rule = nullptr) const;
  sim::IpcqParams ipcq() const;
  Bytes eager_bytes() const;  // of messages between any two PEs that need no posted receive
  std::vector<std::int64_t> n_elem() const;
  std::optional<int> world_size() const;  // set with rank = PE; else a rank is a SIP
  Participants participants() const;
  // Returns the center where the file says auto.
  Root root() const;
  // Returns the roots that a collective may have: one, or all where the file says auto.
  std::vector<Root> roots() const;
  std::vector<Neighbours> neighbours() const;  // those of all candidates, each once, in order
  // Names of entries that have a kernel of their own but are not the algorithm in force.
  std::vector<std::string> unused_entries() const;

  // The number of a rule of the file, from 1; 0 for null and for what with_algorithm() named.
  int number_of_rule(const Rule* rule) const;
  // Describes each rule of the file whose number is not among those that have decided.
  std::vector<std::string> unused_rules(const std::vector<int>& used) const;

  // True if the rule, or for null the default of all_reduce, is what with_algorithm() chose;
  // without that, what a file says.
  bool is_chosen(const Rule* rule) const;

  // True if with_algorithm() named that of all_reduce in every group.
  bool is_overridden() const;

  // Refuses queues that do not fit the device: throws ConfigError KB-Y044, which points at their
  // size in the file.  Returns if their size does not come from a file.
  void refuse_queues(std::string_view why) const;

  // Refuses the algorithm that a rule names, or defaults.algorithm if it is null: throws
  // ConfigError KB-Y047, which points at it if it stands in a file.
  [[noreturn]] void refuse_algorithm(const Rule* rule, std::string_view why) const;

  // Return a copy with one setting that overrides the file.  An algorithm is named for all_reduce
  // in every group, or by rules with '+' between them (read_choice() in ccl/core/config_rules.h):
  // "tree_allreduce", "all_gather:ring+TENSOR_MODEL_PARALLEL_GROUP:ring_allreduce".  Throw
  // UsageError KB-U003 if no algorithm has that name, ConfigError KB-Y042 if the named entry cannot
  // be used beside the defaults.
  Config with_algorithm(std::string_view name) const;
  Config with_buffer_kind(sim::BufferKind kind) const;
  Config with_depth(int depth) const;  // of queues; throws ConfigError KB-Y020 outside of [1, 1024]
  Config with_world_size(int world_size) const;
  Config with_root(Root root) const;

  // Converts to the value of RuntimeOptions::ccl.
  operator std::shared_ptr<const distributed::BackendConfig>() const;

 private:
  struct State;

  // Returns a config with a changed copy of the state.
  template <class Change>
  Config with(const Change& change) const;

  std::shared_ptr<const State> state_;
};

}  // namespace kernbench::ccl
