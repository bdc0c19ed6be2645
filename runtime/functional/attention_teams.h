// Teams of PEs, each of which computes the gradients of some heads of key and value (ADR-0131).

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/functional/attention_team_tiles.h"
#include "runtime/functional/packed_attention.h"
#include "runtime/simulation/attachments.h"
#include "sim_engine/components/machine.h"
#include "sim_engine/topology/location.h"

namespace kernbench::ops {

// All keys of one head of a sequence.
struct AttentionUnit {
  std::size_t sequence = 0;
  std::int64_t key_head = 0;
};

struct AttentionTeam {
  std::vector<sim::PeLocation> members;
  std::vector<AttentionUnit> units;  // one after the other, by all members together
  // The member that begins first chooses them: all have to use the same.
  mutable std::optional<TeamTiles> tiles = std::nullopt;
};
using AttentionTeams = std::vector<AttentionTeam>;

// Makes teams of the PEs that hold parts of `result`, of 16 members at most, so that the busiest
// has the least work; some PEs may be in none.  nullopt if sequences differ in length, or if heads
// and PEs are such that kernels which compute scores twice, and share them evenly, take less time.
// PEs that hold copies of the same rows make teams of their own.
std::optional<AttentionTeams> form_teams(const PackedAttention& attention, const Tensor& result);

// The queues between members of teams, which have no slots: messages go to receives that are
// posted.  They are made when they are asked for.
class TeamQueues final : public runtime::Attachment {
 public:
  const sim::IpcqEnds& between(sim::Machine& machine, const sim::PeLocation& from,
                               const sim::PeLocation& to);
  void forget_ranks() override {}

 private:
  struct Queue {
    const sim::IpcqChannel* channel = nullptr;
    sim::IpcqEnds ends;
  };
  std::map<std::pair<sim::PeLocation, sim::PeLocation>, Queue> queues_;
};

}  // namespace kernbench::ops
