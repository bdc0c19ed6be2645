#include "ccl/core/config_settings.h"

namespace kernbench::ccl {

namespace {

constexpr Bytes kMaxSlot = Bytes{1} << 30;
constexpr Bytes kMaxEager = Bytes{1} << 20;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

void read_wait(YamlMap& map, const Settings& inherited, Settings& settings) {
  if (map.has("wait")) settings.wait = map.choice("wait", sim::kWaitPolicies);
  if (!map.has("poll_interval")) return;
  settings.poll_interval = map.time("poll_interval");
  if ((settings.wait ? settings.wait : inherited.wait) != sim::WaitPolicy::poll) {
    map.fail("poll_interval", "KB-Y043", "has no meaning without 'wait: poll'");
  } else if (map.is_fine({"poll_interval"}) && settings.poll_interval <= Time{0}) {
    map.fail("poll_interval", "KB-Y020", "must be more than 0 ns");
  }
}

void check_ranks(YamlMap& map, const Settings& inherited, Settings& settings) {
  for (const std::string_view key : {"world_size", "participants"}) {
    if (map.find_mark(key) == kNowhere) settings.are_ranks_changed = true;
  }
  const bool has_both = settings.world_size && settings.participants;
  const bool inherits_other = (settings.world_size && inherited.participants) ||
                              (settings.participants && inherited.world_size);
  if (!has_both && !inherits_other) return;
  settings.conflicts = true;
  if (has_both || !inherited.are_ranks_changed) {
    map.fail(settings.participants ? "participants" : "world_size", "KB-Y042", kRanksConflict);
  }
}

}  // namespace

Settings read_settings(YamlMap& map, const Settings& inherited) {
  Settings settings;
  if (map.has("buffer_kind")) settings.buffer_kind = map.choice("buffer_kind", sim::kBufferKinds);
  if (map.has("depth")) settings.depth = map.integer("depth", 1, kMaxDepth);
  if (map.has("slot")) settings.slot_bytes = map.bytes("slot", 4, kMaxSlot);
  if (map.has("eager")) settings.eager_bytes = map.bytes("eager", 0, kMaxEager);
  for (const std::string_view key : {"buffer_kind", "depth", "slot"}) {
    if (const auto mark = map.find_mark(key)) settings.queues_mark = mark;
  }
  read_wait(map, inherited, settings);
  if (map.has("n_elem")) settings.n_elem = map.integers("n_elem", 0, kMaxElements);
  if (map.has("world_size")) {
    settings.world_size = map.integer("world_size", 1, kMaxWorldSize);
  }
  if (map.has("participants")) settings.participants = map.choice("participants", kParticipants);
  if (map.has("root")) settings.root = map.choice("root", kRootChoices);
  if (map.has("neighbours")) settings.neighbours = map.choice("neighbours", kNeighbours);
  check_ranks(map, inherited, settings);
  return settings;
}

}  // namespace kernbench::ccl
