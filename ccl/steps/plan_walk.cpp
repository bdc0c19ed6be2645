#include "ccl/steps/plan_walk.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "ccl/steps/link_shares.h"
#include "ccl/steps/scratch_use.h"
#include "ccl/steps/step.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::ccl {

namespace {

// The model looks at the plans of at most this many members.  Networks are regular, so the plans of
// further members load the links alike; but for links unlike the others, of which any may decide.
constexpr int kMostMembers = 64;
// All of them where each has few moves: those of a tree differ, and its longest chain may end
// anywhere.
constexpr std::size_t kFewMoves = 8;

int members_to_walk(const Topology& topology, const GroupShape& shape) {
  return topology.system.unlike_links.empty() ? std::min(shape.size, kMostMembers) : shape.size;
}

// The links of a group, and how many chunks they carry.  Members that are PEs have a port each way.
class LinkLoads {
 public:
  LinkLoads(const Topology& topology, const GroupShape& shape, const std::vector<int>& sips)
      : network_(topology),
        sips_(sips),
        are_pes_(shape.is_of_pes),
        links_(are_pes_ ? 2 : network_.links_per_sip()),
        parallel_(are_pes_ ? 1 : topology.system.links_per_pair),
        shares_(are_pes_ || topology.system.sip_count < 2 ? nullptr
                                                          : std::make_unique<LinkShares>(topology)),
        loads_(
            static_cast<std::size_t>(links_ * (are_pes_ ? shape.size : topology.system.sip_count))),
        of_time_(loads_.size()),
        busy_times_(loads_.size()) {}

  // The links between SIPs that a message passes beyond one, and what their latency is beyond that
  // of so many within a node.
  struct Passed {
    int further = 0;
    Time extra{0};
  };

  // Adds a message of the present time.
  Passed add(int from, int to, std::int64_t chunks) {
    if (are_pes_) {
      add({from, 0}, chunks * PlanWalk::kChunk);
      add({to, 1}, chunks * PlanWalk::kChunk);
      return {};
    }
    if (from == kSwitch || to == kSwitch) {
      using sim::SipNetwork;
      const SipNetwork::Link link = from == kSwitch
                                        ? SipNetwork::Link{sip(to), SipNetwork::kFromSwitch}
                                        : SipNetwork::Link{sip(from), SipNetwork::kToSwitch};
      add(link, chunks * shares_->of(link));
      return {};
    }
    for (const sim::SipNetwork::Link& link : network_.way(sip(from), sip(to))) {
      add(link, chunks * shares_->of(link));
    }
    return {network_.hops(sip(from), sip(to)) - 1, shares_->extra(sip(from), sip(to))};
  }
  // Ends the present time.  Returns the most that a link carries in it: messages spread over
  // parallel links, but each takes one.
  std::int64_t end_time() {
    std::int64_t most = 0;
    for (const std::size_t link : used_) {
      most = std::max(most, whole_chunks(of_time_[link], parallel_));
      of_time_[link] = 0;
      ++busy_times_[link];
    }
    used_.clear();
    return std::max(most, std::exchange(largest_, 0));
  }
  // Returns the time of a message by which chains are compared; 0 if all links are alike.
  Time step() const { return shares_ == nullptr ? Time{0} : shares_->step(); }
  std::int64_t most() const { return whole_chunks(*std::ranges::max_element(loads_), parallel_); }
  // Returns the number of times in which the busiest link carries messages.
  int busy_times() const {
    const std::int64_t most = *std::ranges::max_element(loads_);
    int fewest = std::numeric_limits<int>::max();
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      if (loads_[i] == most) fewest = std::min(fewest, busy_times_[i]);
    }
    return fewest;
  }
  // Returns the load of a link in the most loaded direction, if all members load links as the
  // `members` that were added do.
  std::int64_t most_by_direction(int members) const {
    std::vector<std::int64_t> sums(static_cast<std::size_t>(links_), 0);
    for (std::size_t i = 0; i < loads_.size(); ++i) sums[i % sums.size()] += loads_[i];
    return whole_chunks(*std::ranges::max_element(sums), std::int64_t{members} * parallel_);
  }

 private:
  // The load of each of `count` links that carry a load together: a chunk takes one of them.
  static std::int64_t whole_chunks(std::int64_t load, std::int64_t count) {
    return count == 1 ? load : PlanWalk::kChunk * sim::ceil_divide(load, PlanWalk::kChunk * count);
  }

  int sip(int member) const { return sips_[static_cast<std::size_t>(member)]; }
  void add(const sim::SipNetwork::Link& link, std::int64_t chunks) {
    const auto index = static_cast<std::size_t>(link.sip * links_ + link.number);
    if (of_time_[index] == 0) used_.push_back(index);
    of_time_[index] += chunks;
    loads_[index] += chunks;
    largest_ = std::max(largest_, chunks);
  }

  const sim::SipNetwork network_;
  const std::vector<int>& sips_;
  const bool are_pes_;
  const int links_;  // of a SIP or a PE
  const int parallel_;
  const std::unique_ptr<const LinkShares> shares_;  // null: there are no links between SIPs
  std::vector<std::int64_t> loads_;
  std::vector<std::int64_t> of_time_;
  std::vector<int> busy_times_;
  std::vector<std::size_t> used_;  // in the present time
  std::int64_t largest_ = 0;       // message of the present time
};

// Finds the longest chain of messages: passes over the moves of all members by time.  With posts,
// each message waits for the news of its receive.
class Chains {
 public:
  struct MemberMove {
    int member;
    std::size_t index;
  };

  Chains(const std::vector<Plan>& plans, Time step, bool has_posts)
      : plans_(plans), step_(step), has_posts_(has_posts), ends_(plans.size()) {}

  void begin_time(int time) {
    if (has_posts_) ends_before_.emplace_back(time, ends_);
    // Receives are posted so many times before a message is taken, which is one after its send.
    constexpr std::size_t kTimes = 2;
    if (ends_before_.size() > kTimes + 1) ends_before_.pop_front();
    time_ = time;
  }

  // The chain at whose end the member does the move.  A kernel takes its steps in their order, and
  // waits for the messages of each.
  Chain begin(const MemberMove& at) {
    Chain& chain = ends_[static_cast<std::size_t>(at.member)];
    const Move& move = move_at(at);
    for (const int from : move.from) chain = std::max(chain, take(from, at.member, move.chunks));
    return chain;
  }
  void send(const MemberMove& at, int to, Chain chain, const LinkLoads::Passed& passed) {
    if (to == kSwitch) {  // the message to the switch and the one from it are one step
      at_switch_ = std::max(at_switch_, chain);
      return;
    }
    if (has_posts_) chain = std::max(chain, news_of(to, passed));
    ++chain.steps;
    chain.further += passed.further;
    chain.extra += passed.extra;
    chain.latency += step_ + passed.extra;
    messages_[{at.member, to}].push_back({move_at(at).chunks, chain});
  }

  const Move& move_at(const MemberMove& at) const {
    return plans_[static_cast<std::size_t>(at.member)].moves[at.index];
  }

 private:
  struct Message {
    ChunkRange chunks;
    Chain chain;
  };

  Chain take(int from, int to, const ChunkRange& chunks) {
    if (from == kSwitch) {
      Chain chain = at_switch_;
      ++chain.steps;
      return chain;
    }
    std::vector<Message>& sent = messages_[{from, to}];
    const auto found = std::ranges::find(sent, chunks, &Message::chunks);
    if (found == sent.end()) return {};
    const Chain chain = found->chain;
    sent.erase(found);
    return chain;
  }

  // The news of a receive: it is posted when the member begins its first move kPostsAhead before.
  Chain news_of(int member, const LinkLoads::Passed& passed) const {
    Chain chain;
    for (const auto& [time, ends] : ends_before_) {
      if (time > time_ + 1 - kPostsAhead) break;
      chain = ends[static_cast<std::size_t>(member)];
    }
    ++chain.news;
    chain.extra += passed.extra;
    chain.latency += step_ + passed.extra;
    return chain;
  }

  const std::vector<Plan>& plans_;
  const Time step_;
  const bool has_posts_;
  int time_ = 0;
  std::vector<Chain> ends_;  // by member: of the moves so far
  // The same before each of the last times began.
  std::deque<std::pair<int, std::vector<Chain>>> ends_before_;
  std::map<std::pair<int, int>, std::vector<Message>> messages_;
  Chain at_switch_;
};

std::vector<Plan> make_plans(const Algorithm& algorithm, Plan::Kind kind, const GroupShape& shape,
                             int root, int members) {
  std::vector<Plan> plans;
  const auto has_few_moves = [](const Plan& plan) { return plan.moves.size() <= kFewMoves; };
  for (int self = 0; self < shape.size; ++self) {
    if (self == members && !std::ranges::all_of(plans, has_few_moves)) break;
    algorithm.plan({shape, kind, root, self, {}}, plans.emplace_back(kind, self));
  }
  return plans;
}

std::vector<Chains::MemberMove> moves_by_time(const std::vector<Plan>& plans) {
  std::vector<Chains::MemberMove> moves;
  for (std::size_t member = 0; member < plans.size(); ++member) {
    for (std::size_t i = 0; i < plans[member].moves.size(); ++i) {
      moves.push_back({static_cast<int>(member), i});
    }
  }
  std::ranges::stable_sort(moves, {}, [&](const Chains::MemberMove& at) {
    return plans[static_cast<std::size_t>(at.member)].moves[at.index].time;
  });
  return moves;
}

// The walk over the moves of all members.
class Walk {
 public:
  Walk(const Algorithm& algorithm, Plan::Kind kind, const Topology& topology,
       const GroupShape& shape, const std::vector<int>& sips, int root)
      : plans_(make_plans(algorithm, kind, shape, root, members_to_walk(topology, shape))),
        are_all_(shape.size == static_cast<int>(plans_.size())),
        has_queues_(algorithm.network == Network::any && !has_pairs(kind)),
        links_(topology, shape, sips),
        memory_(plans_.size()),
        added_(plans_.size()),
        eager_(plans_, links_.step(), false),
        posted_(plans_, links_.step(), !has_queues_) {
    walk_.are_pes = shape.is_of_pes;
    walk_.uses_slots = has_queues_;
  }

  PlanWalk walk() {
    int now = -1;
    for (const Chains::MemberMove& at : moves_by_time(plans_)) {
      const int time = eager_.move_at(at).time;
      if (time != std::exchange(now, time)) {
        end_time();
        if (are_all_) {
          eager_.begin_time(time);
          posted_.begin_time(time);
        }
      }
      pass(at);
    }
    end_time();
    walk_.load = links_.most();
    walk_.memory = *std::ranges::max_element(memory_);
    walk_.added = *std::ranges::max_element(added_);
    walk_.idle_times = walk_.times - links_.busy_times();
    if (!are_all_) {
      walk_.load = std::max(walk_.load, links_.most_by_direction(kMostMembers));
      // The times together cannot have less than one link has in all of them.
      walk_.fill = std::max(walk_.fill, walk_.load);
    }
    if (are_all_ && plans_.size() > 1) walk_.kept = find_kept();
    walk_.plan = std::move(plans_.front());
    return std::move(walk_);
  }

 private:
  void pass(const Chains::MemberMove& at) {
    const Move& move = eager_.move_at(at);
    note_own_work(at.member, move);
    Chain eager;
    Chain posted;
    if (are_all_) {
      eager = eager_.begin(at);
      posted = posted_.begin(at);
      walk_.eager = std::max(walk_.eager, eager);
      walk_.posted = std::max(walk_.posted, posted);
    }
    for (const int to : move.to) {
      const LinkLoads::Passed passed = links_.add(at.member, to, move.chunks.count());
      sends_now_ = true;
      passed_now_.further = std::max(passed_now_.further, passed.further);
      passed_now_.extra = std::max(passed_now_.extra, passed.extra);
      walk_.most_of_pair = std::max(walk_.most_of_pair, ++messages_[{at.member, to}]);
      if (!are_all_) continue;
      eager_.send(at, to, eager, passed);
      posted_.send(at, to, posted, passed);
    }
    if (std::ranges::find(move.from, kSwitch) != move.from.end()) {
      links_.add(kSwitch, at.member, move.chunks.count());
      walk_.passes_sums = true;
    }
  }

  std::int64_t find_kept() const {
    std::int64_t kept = 0;
    for (const Plan& plan : plans_) {
      if (!plan.moves.empty()) kept = std::max(kept, most_chunks_kept(plan, 1));
    }
    return kept;
  }

  // Adds up what the member loads, stores and sums.
  void note_own_work(int member, const Move& move) {
    const std::int64_t chunks = PlanWalk::kChunk * move.chunks.count();
    const auto summands =
        static_cast<int>(move.from.size() + move.held.size()) + (move.has_source ? 1 : 0);
    const auto at = static_cast<std::size_t>(member);
    memory_[at] += chunks * ((move.has_source ? 1 : 0) + (move.stores ? 1 : 0));
    added_[at] += chunks * std::max(summands - 1, 0);
  }

  // The walk takes a chain of many members to have a message in each time.
  void end_time() {
    const std::int64_t most = links_.end_time();
    walk_.fill += most;
    if (most > 0) walk_.last = most;
    walk_.times += most > 0 ? 1 : 0;
    const LinkLoads::Passed passed = std::exchange(passed_now_, {});
    const bool sends = std::exchange(sends_now_, false);
    if (are_all_ || !sends) return;
    ++walk_.eager.steps;
    walk_.eager.further += passed.further;
    walk_.eager.extra += passed.extra;
    walk_.posted = walk_.eager;
    walk_.posted.news = has_queues_ ? 0 : 1;
  }

  std::vector<Plan> plans_;
  const bool are_all_;
  const bool has_queues_;
  LinkLoads links_;
  std::vector<std::int64_t> memory_;  // by member
  std::vector<std::int64_t> added_;   // by member
  Chains eager_;
  Chains posted_;
  bool sends_now_ = false;  // messages in the present time
  LinkLoads::Passed passed_now_;
  std::map<std::pair<int, int>, int> messages_;  // by sender and receiver
  PlanWalk walk_;
};

}  // namespace

PlanWalk walk_plan(const Algorithm& algorithm, Plan::Kind kind, const Topology& topology,
                   const GroupShape& shape, const std::vector<int>& sips, int root) {
  return Walk(algorithm, kind, topology, shape, sips, root).walk();
}

int root_to_walk(const Topology& topology, const GroupShape& shape, int root) {
  const Topology::System& system = topology.system;
  const sim::Grid grid = sim::sip_grid(topology);
  const bool is_regular = shape.joins_all || grid.wraps;
  const bool are_alike = shape.is_of_pes || (is_regular && system.unlike_links.empty() &&
                                             shape.size == system.sip_count);
  return are_alike || members_to_walk(topology, shape) < shape.size ? 0 : root;
}

}  // namespace kernbench::ccl
