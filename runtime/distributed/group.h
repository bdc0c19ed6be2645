// The state of a process group, shared by its members.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/distributed/backend.h"
#include "runtime/distributed/collective_ledger.h"
#include "runtime/distributed/mailbox.h"
#include "runtime/distributed/work.h"

namespace kernbench::distributed {

class CollectiveStream;

struct Group : std::enable_shared_from_this<Group> {
  Group(int its_number, std::string its_description, std::vector<int> its_ranks);

  int size() const { return static_cast<int>(ranks.size()); }
  // Returns the group rank of one that was spawned; nullopt if it is no member.
  std::optional<int> rank_of(int spawned) const;
  // Return the global rank of a member, and the group rank of a global one; nullopt if it is no
  // member.  Global ranks are those in the default group, which shrink_group() counts anew.
  int global_rank(int rank) const { return global_ranks().at(static_cast<std::size_t>(rank)); }
  std::optional<int> rank_of_global(int global) const;
  const std::vector<int>& global_ranks() const { return shown_ranks.empty() ? ranks : shown_ranks; }
  bool has_left(int rank) const { return has_destroyed[static_cast<std::size_t>(rank)]; }
  // Return the last collective of the member with this group rank, which its next one follows, and
  // the timeline of all its collectives.
  std::shared_ptr<Work::State>& last_work(int rank) {
    return last_works_[static_cast<std::size_t>(rank)];
  }
  const std::shared_ptr<runtime::Timeline>& timeline(int rank) const {
    return timelines_[static_cast<std::size_t>(rank)];
  }

  // The member's stream; null before its first queued collective.
  std::shared_ptr<CollectiveStream>& stream(int rank) {
    return streams_[static_cast<std::size_t>(rank)];
  }

  // Starts a new run: calls are counted anew, and nothing is under way.
  void begin_anew();
  // Frees what the group needs to run, since nobody will call it again.  Operations under way hold
  // shares of what they use.
  void release();

  bool is_shrunk = false;      // made by shrink_group(), and not the default group yet
  bool has_followers = false;  // see State::check_followers_have_groups()
  bool is_of_ranks = false;                            // made in a spawn(), and gone with it
  DistributedContext* context = nullptr;               // in which it was made
  std::weak_ptr<runtime::Simulation> simulation = {};  // gone: so is the context

  const std::string name;  // its number
  const int number;
  const std::string description;
  const std::vector<int> ranks;                // as they were spawned, by group rank
  std::vector<int> shown_ranks;                // global ranks, if these differ: see global_rank()
  std::shared_ptr<Communicator> communicator;  // null: nothing has run yet, or it is destroyed
  CollectiveLedger ledger;
  Mailbox mailbox;
  std::vector<bool> has_destroyed;  // by group rank: destroy_process_group(group)

 private:
  std::vector<std::shared_ptr<Work::State>> last_works_;  // by group rank, as are the timelines
  std::vector<std::shared_ptr<runtime::Timeline>> timelines_;
  std::vector<std::shared_ptr<CollectiveStream>> streams_;
  std::vector<std::pair<int, int>> by_spawned_rank_;  // pairs (rank, group rank), sorted
};

}  // namespace kernbench::distributed
