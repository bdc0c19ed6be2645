// Rules of ccl.yaml that choose an algorithm for a collective, by its size and its group's:
//
//   rules:
//     - all_reduce: {algorithm: tree_allreduce, up_to: 4 KiB}
//     - all_reduce: {algorithm: bidirectional_ring_allreduce, above: 64 KiB, ranks: 4}
//     - broadcast: {algorithm: chain}
//     - all_reduce: {algorithm: switch_allreduce, protocol: NVLS}
//
// The first rule that fits decides; where none does, `defaults.algorithm` does for all_reduce, and
// the fastest by the model for all others.  A size is in bytes of what a rank gives to, or takes
// from, each other one: of the tensor for all_reduce, of a block for all_gather.

//
// Protocols of ccl.yaml, which say what software adds to the messages of a collective, by all that
// a rank gives or takes (nccl-tests' size), unless a rule names one:
//
//   protocols:
//     - LL:     {up_to: 64 KiB, start: 6 us, latency: 600 ns, efficiency: 50 %}
//     - Simple: {start: 8.4 us, latency: 3.4 us, efficiency: 95 %}
//
// `start` is spent by each PE before its first message, `latency` by each message; of the bytes on
// a link `efficiency` are data.  The first that fits is taken; without any, messages cost what the
// topology says.  Kernels by hand have none.

#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ccl/core/algorithm.h"
#include "sim_engine/config/yaml_reader.h"
#include "sim_engine/topology/ipcq_params.h"

namespace kernbench::ccl {

struct Rule {
  distributed::CollectiveKind kind = distributed::CollectiveKind::all_reduce;
  const Algorithm* algorithm = nullptr;  // null: the fastest by the model
  Bytes above = -1;
  Bytes up_to = std::numeric_limits<Bytes>::max();
  std::optional<int> ranks;
  std::string protocol;  // of its messages; empty: by size

  bool fits(distributed::CollectiveKind wanted, int rank_count, Bytes bytes) const {
    return kind == wanted && bytes > above && bytes <= up_to &&
           ranks.value_or(rank_count) == rank_count;
  }
};

struct Protocol {
  std::string name;
  Bytes up_to = std::numeric_limits<Bytes>::max();
  Time start{0};
  Time latency{0};
  int efficiency = sim::IpcqParams::kWhole;

  sim::IpcqParams params() const {
    sim::IpcqParams params;
    params.message_latency = latency;
    params.efficiency = efficiency;
    return params;
  }
};

// Reads the list.  Sizes that do not ascend are KB-Y045.
std::vector<Protocol> read_protocols(YamlReader& reader, const YamlNode& list);

// Reads the list.  An algorithm that does not serve the collective, or cannot serve groups of any
// shape, is KB-Y040; so is a protocol that is none of those.
std::vector<Rule> read_rules(YamlReader& reader, const YamlNode& list,
                             std::span<const Protocol> protocols);

}  // namespace kernbench::ccl
