// The settings of ccl.yaml's defaults, and of an algorithm's entry.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ccl/core/config.h"
#include "sim_engine/config/yaml_reader.h"

namespace kernbench::ccl {

inline constexpr int kMaxWorldSize = 1 << 20;
inline constexpr int kMaxDepth = 1024;

// Settings as written in the file; settings that are absent are inherited.
struct Settings {
  std::optional<sim::BufferKind> buffer_kind;
  std::optional<int> depth;
  std::optional<Bytes> slot_bytes;
  std::optional<Bytes> eager_bytes;
  std::optional<sim::WaitPolicy> wait;
  std::optional<Time> poll_interval;
  std::optional<std::vector<std::int64_t>> n_elem;
  std::optional<int> world_size;
  std::optional<Participants> participants;
  std::optional<Root> root;
  std::optional<Neighbours> neighbours;
  // The place in the file of slot, else of depth, else of buffer_kind: "ccl.yaml:5:9: [...]".
  std::optional<TextMark> queues_mark;
  // world_size or participants stands in no file: a program has changed the document.
  bool are_ranks_changed = false;
  // It has one of the two, and inherits the other from such a change: nobody wrote both, so it is
  // an error only where the entry is chosen.
  bool conflicts = false;
};

inline constexpr std::string_view kRanksConflict =
    "world_size makes every PE a rank; participants chooses among the PEs of a SIP: keep one of "
    "them";

// `inherited` has the settings that hold where the map has none.
Settings read_settings(YamlMap& map, const Settings& inherited);

}  // namespace kernbench::ccl
