#include "runtime/functional/attention_teams.h"

#include <algorithm>

#include "runtime/functional/attention_shares.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/processing_element.h"

namespace kernbench::ops {

namespace {

// A member has a queue to and from each other one.
constexpr std::int64_t kMostMembers = 16;

bool are_equally_long(const std::vector<PackedSequence>& sequences) {
  return std::ranges::all_of(sequences, [&](const PackedSequence& of) {
    return of.query_rows == sequences.front().query_rows &&
           of.key_rows == sequences.front().key_rows;
  });
}

// The folds of the array along the keys of a unit, of which each member of a team has a part.
struct Work {
  std::int64_t units = 0;
  std::int64_t key_rows = 0;
  std::int64_t array_rows = 0;

  std::int64_t folds(std::int64_t members) const {
    return sim::ceil_divide(sim::ceil_divide(key_rows, members), array_rows);
  }
  // The folds that the busiest of these PEs has, in teams of so many members.
  std::int64_t most_folds(std::int64_t pes, std::int64_t members) const {
    return sim::ceil_divide(units, pes / members) * folds(members);
  }
};

// The number of members that takes the least time, and the fewest such.
std::int64_t choose_members(const Work& work, std::int64_t pes) {
  std::int64_t best = 1;
  for (std::int64_t members = 2; members <= std::min(pes, kMostMembers); ++members) {
    if (work.most_folds(pes, members) < work.most_folds(pes, best)) best = members;
  }
  return best;
}

// True if kernels without teams, which multiply seven times instead of five, but share any work
// evenly, would take longer.
bool is_worth_teams(const Work& work, std::int64_t pes, std::int64_t members) {
  const std::int64_t evenly = std::max(work.units * work.folds(1), pes);
  return 5 * work.most_folds(pes, members) * pes <= 7 * evenly;
}

// Consecutive PEs make a team, and consecutive units are its.  Some PEs may be left.
void add_teams(const std::vector<sim::PeLocation>& pes, const std::vector<AttentionUnit>& units,
               std::int64_t members, AttentionTeams& teams) {
  const std::int64_t count = std::min(std::ssize(pes) / members, std::ssize(units));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto own = pes.begin() + i * members;
    const auto begin = units.begin() + i * std::ssize(units) / count;
    const auto end = units.begin() + (i + 1) * std::ssize(units) / count;
    teams.push_back({{own, own + members}, {begin, end}});
  }
}

}  // namespace

std::optional<AttentionTeams> form_teams(const PackedAttention& attention, const Tensor& result) {
  if (attention.sequences.empty() || !are_equally_long(attention.sequences)) return std::nullopt;
  std::vector<AttentionUnit> units;
  for (std::size_t sequence = 0; sequence < attention.sequences.size(); ++sequence) {
    for (std::int64_t head = 0; head < attention.key_heads; ++head) {
      units.push_back({sequence, head});
    }
  }
  const GemmSpec& array = result.storage()->simulation->topology().pe.gemm;
  const Work work{std::ssize(units), attention.sequences.front().key_rows, array.rows};
  AttentionTeams teams;
  for (const std::vector<sim::PeLocation>& pes : find_holders_of_copies(result)) {
    const std::int64_t members = choose_members(work, std::ssize(pes));
    if (!is_worth_teams(work, std::ssize(pes), members)) return std::nullopt;
    add_teams(pes, units, members, teams);
  }
  return teams;
}

const sim::IpcqEnds& TeamQueues::between(sim::Machine& machine, const sim::PeLocation& from,
                                         const sim::PeLocation& to) {
  Queue& queue = queues_[{from, to}];
  // A backend of collectives may have removed all queues since.
  const bool is_there = queue.channel != nullptr &&
                        machine.pe(from).ipcq().out(queue.ends.out) == queue.channel &&
                        queue.channel->ends().to == to && queue.channel->params().slot_bytes == 0;
  if (is_there) return queue.ends;
  queue.ends = {from, machine.pe(from).ipcq().unused_port(sim::Direction::global_east), to,
                machine.pe(to).ipcq().unused_port(sim::Direction::global_west)};
  queue.channel = &machine.connect(queue.ends, {.depth = 1, .slot_bytes = 0});
  return queue.ends;
}

}  // namespace kernbench::ops
