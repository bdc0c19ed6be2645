// Rules of ccl.yaml that choose an algorithm for a collective, by its size and its group's:
//
//   rules:
//     - all_reduce: {algorithm: tree_allreduce, up_to: 4 KiB}
//     - all_reduce: {algorithm: bidirectional_ring_allreduce, above: 64 KiB, ranks: 4}
//     - broadcast: {algorithm: chain}
//     - all_reduce: {algorithm: switch_allreduce, protocol: NVLS}
//     - all_reduce: {algorithm: ring_allreduce, group: TENSOR_MODEL_PARALLEL_GROUP}
//
// The first rule that fits decides; where none does, `defaults.algorithm` does for all_reduce, and
// the fastest by the model for all others.  A group is named by its description: group_desc of
// new_group(), and default_pg for the default group.  A size is that of nccl-tests, as in tables of
// published times: all that a rank gives or takes, so of the tensor for all_reduce and of the
// blocks of all ranks for all_gather, reduce_scatter and all_to_all.
//
// Protocols of ccl.yaml, which say what software adds to the messages of a collective, by the same
// size, unless a rule names one:
//
//   protocols:
//     - LL:     {up_to: 64 KiB, start: 6 us, latency: 600 ns, efficiency: 50 %}
//     - NVLS:   {start: 22.5 us, latency: 1 us}  # of the rules that name it
//     - Simple: {start: 8.4 us, latency: 3.4 us, efficiency: 95 %}
//
// `start` is spent by each PE before its first message, `latency` by each message, and `hop` for
// each step from SIP to SIP on its way, of which a switch and the network between nodes are one; of
// the bytes on a link `efficiency` are data.  The first that fits is taken.  One without `up_to`
// that is not the last serves the rules that name it, and no others.  Without any, messages cost
// what the topology says.  Kernels by hand have none.

#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/core/algorithm.h"
#include "sim_engine/config/yaml_reader.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

struct Rule {
  distributed::CollectiveKind kind = distributed::CollectiveKind::all_reduce;
  const Algorithm* algorithm = nullptr;  // null: the fastest by the model
  Bytes above = -1;
  Bytes up_to = std::numeric_limits<Bytes>::max();
  std::optional<int> ranks;
  std::string protocol = {};                    // of its messages; empty: by size
  std::string group = {};                       // empty: of any
  std::optional<TextMark> mark = std::nullopt;  // where a file names the algorithm

  bool fits_group(int rank_count, std::string_view description) const {
    return ranks.value_or(rank_count) == rank_count && (group.empty() || group == description);
  }
  bool fits(distributed::CollectiveKind wanted, Bytes bytes) const {
    return kind == wanted && bytes > above && bytes <= up_to;
  }
};

// "4:9 (all_reduce by tree_allreduce, ranks 7, group NOPE)", its line and column first.
std::string describe(const Rule& rule);

struct Protocol {
  std::string name;
  Bytes up_to = std::numeric_limits<Bytes>::max();
  bool is_of_rules = false;  // of those that name it alone, whatever the size
  Time start{0};
  Time latency{0};
  Time hop{0};
  Share efficiency = {};

  sim::IpcqParams params() const {
    sim::IpcqParams params;
    params.message_latency = latency;
    params.efficiency = efficiency;
    return params;
  }
};

// Reads the list.  An algorithm that does not serve the collective, or cannot serve groups of any
// shape, is KB-Y040; so is a protocol that is none of the list `protocols` (null: there is none).
std::vector<Rule> read_rules(YamlReader& reader, const YamlNode& list, const YamlNode* protocols);

// Reads the list.  Sizes that do not ascend are KB-Y045.
std::vector<Protocol> read_protocols(YamlReader& reader, const YamlNode& list,
                                     std::span<const Rule> rules);

// The rules of "all_gather:ring", "GROUP:tree_allreduce" (all that the algorithm serves) or
// "all_gather@GROUP:ring".  Throws UsageError KB-U003 if no algorithm has that name, or it does not
// serve the collective.
std::vector<Rule> read_choice(std::string_view text);

}  // namespace kernbench::ccl
