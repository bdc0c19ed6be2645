// The plans of all members together, carried out chunk by chunk without a machine.

#include "ccl/core/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ccl/core/algorithm.h"
#include "sim_engine/topology/sip_network.h"
#include "test/support/small_topology.h"

namespace kernbench::test::plan_test {
namespace {

using ccl::GroupShape;
using ccl::kNobody;
using ccl::Move;
using ccl::Plan;
using distributed::CollectiveKind;
using distributed::CollectiveTraits;

// The number of times that it has each member's summand.
using Value = std::vector<std::uint8_t>;

// One chunk on its way.
struct Message {
  int chunk = 0;
  ccl::ChunkRange chunks;  // its giver and taker
  int time = 0;            // when it is sent
  Value value;
};

// Carries out the plans of a collective, and notes what contradicts plan.h.
class Members {
 public:
  Members(const ccl::Algorithm& algorithm, const GroupShape& shape, CollectiveKind kind, int root)
      : traits_(traits_of(kind)), size_(shape.size), root_(root) {
    for (int self = 0; self < size_; ++self) {
      algorithm.plan({shape, kind, root, self, {}}, plans_.emplace_back(kind, self));
    }
    held_.resize(plans_.size());
  }

  // Returns what is wrong first.
  std::string run() {
    for (const Plan& plan : plans_) check_sizes(plan);
    for (const auto& [self, index] : moves_in_order()) {
      if (wrong_.empty()) run(self, index);
    }
    for (const auto& [ends, messages] : messages_) {
      expect(messages.empty(), fmt::format("{} are left", ends.first));
    }
    for (int self = 0; self < size_; ++self) check_stored(self);
    // Blocks that travel in pairs have more times than members where they go either way round.
    if (!ccl::has_pairs(plans_.front().kind())) check_length();
    return wrong_;
  }

 private:
  void expect(bool holds, std::string_view wrong) {
    if (!holds && wrong_.empty()) wrong_ = wrong;
  }
  const Plan& plan(int self) const { return plans_[static_cast<std::size_t>(self)]; }
  const Move& move_at(int self, std::size_t i) const { return plan(self).moves[i]; }

  void check_sizes(const Plan& plan) {
    const Plan& first = plans_.front();
    expect(plan.chunk_count == first.chunk_count && plan.length == first.length &&
               plan.width == first.width && plan.channels == first.channels,
           "members have unlike plans");
    expect(plan.chunk_count % plan.channels == 0, "channels have unlike chunks");
    for (const Move& move : plan.moves) {
      expect(move.time >= 0, "a time before the first one");
      expect(move.chunks.end <= plan.chunk_count, "a chunk beyond the last one");
    }
  }

  void check_length() {
    int last = 0;
    for (const Plan& plan : plans_) {
      for (const Move& move : plan.moves) last = std::max(last, move.time);
    }
    expect(plans_.front().length == last + 1, "the length is not when the last move is done");
  }

  std::vector<std::pair<int, std::size_t>> moves_in_order() const {
    std::vector<std::pair<int, std::size_t>> all;
    for (int self = 0; self < size_; ++self) {
      for (std::size_t i = 0; i < plan(self).moves.size(); ++i) all.emplace_back(self, i);
    }
    std::ranges::stable_sort(all, {}, [this](const auto& at) {
      const Move& move = move_at(at.first, at.second);
      return std::tuple(move.time, move.stage, move.chunks);
    });
    return all;
  }

  void run(int self, std::size_t index) {
    const Move& move = move_at(self, index);
    for (int chunk = move.chunks.begin; chunk < move.chunks.end; ++chunk) {
      Value value(plans_.size(), 0);
      for (const int from : move.from) add(receive(from, self, move, chunk), value);
      if (move.has_source) ++value[static_cast<std::size_t>(self)];
      if (!move.held.empty()) add(held(self, move, chunk), value);
      const bool is_whole = value == result_of(move);
      if (traits_.reduces) expect(!move.is_complete || is_whole, "a part is said to be complete");
      for (const int to : move.to) {
        messages_[{self, to}].push_back({chunk, move.chunks, move.time, value});
      }
      if (move.stores) {
        expect(is_whole, fmt::format("{} stores a wrong value", self));
        expect(++stored_[{self, giver_of(move), chunk}] == 1, "a value is stored twice");
      }
      held_[static_cast<std::size_t>(self)][{index, chunk}] = std::move(value);
    }
  }

  // Messages between two members have no names: they come as they were sent.
  Value receive(int from, int self, const Move& move, int chunk) {
    std::deque<Message>& messages = messages_[{from, self}];
    expect(!messages.empty(), fmt::format("{} -> {} is not sent", from, self));
    if (messages.empty()) return Value(plans_.size(), 0);
    const Message message = std::move(messages.front());
    messages.pop_front();
    const auto block_of = [](const ccl::ChunkRange& chunks) {
      return std::pair(chunks.giver, chunks.taker);
    };
    expect(message.chunk == chunk && block_of(message.chunks) == block_of(move.chunks),
           fmt::format("{} -> {} brings another chunk", from, self));
    const int times = move.time - message.time;
    if (times_of_hop_ == 0) times_of_hop_ = times;
    expect(times == times_of_hop_ && (times == 1 || times == ccl::kTimesOfHop),
           fmt::format("{} -> {} is under way for {} times", from, self, times));
    return message.value;
  }

  // The part of the chunk that the one earlier move with it holds.
  Value held(int self, const Move& move, int chunk) {
    const auto& of_member = held_[static_cast<std::size_t>(self)];
    std::vector<Value> found;
    for (const int index : move.held) {
      const auto value = of_member.find({static_cast<std::size_t>(index), chunk});
      if (value != of_member.end()) found.push_back(value->second);
    }
    expect(found.size() == 1, fmt::format("{} moves hold a chunk", found.size()));
    return found.size() == 1 ? found.front() : Value(plans_.size(), 0);
  }

  static void add(const Value& value, Value& sum) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] = static_cast<std::uint8_t>(sum[i] + value[i]);
    }
  }

  // Whose block it is; nobody's that of a reduction.
  int giver_of(const Move& move) const {
    if (traits_.reduces) return kNobody;
    return move.chunks.giver == kNobody ? root_ : move.chunks.giver;
  }

  // Members are to have this in the end: all summands once, or the giver's.
  Value result_of(const Move& move) const {
    if (traits_.reduces) return Value(plans_.size(), 1);
    Value result(plans_.size(), 0);
    result[static_cast<std::size_t>(giver_of(move))] = 1;
    return result;
  }

  void check_stored(int self) {
    const bool takes = traits_.root != distributed::Root::taker || self == root_;
    std::vector<int> givers = {traits_.reduces ? kNobody : root_};
    if (traits_.takes == distributed::BlockCount::each) {
      givers.resize(plans_.size());
      std::iota(givers.begin(), givers.end(), 0);
    }
    for (const int giver : givers) {
      // The root of a broadcast has its data.
      const bool has_it = traits_.is_in_place() && traits_.root == distributed::Root::giver;
      for (int chunk = 0; chunk < plan(self).chunk_count; ++chunk) {
        const bool is_stored = stored_.contains({self, giver, chunk});
        expect(is_stored == takes || (has_it && self == root_),
               fmt::format("{} lacks what it takes from {}", self, giver));
      }
    }
  }

  const CollectiveTraits& traits_;
  const int size_;
  const int root_;
  std::vector<Plan> plans_;
  // The parts that each member's moves hold, by move and chunk.
  std::vector<std::map<std::pair<std::size_t, int>, Value>> held_;
  std::map<std::pair<int, int>, std::deque<Message>> messages_;  // by sender and receiver
  std::map<std::tuple<int, int, int>, int> stored_;  // how often, by member, giver and chunk
  int times_of_hop_ = 0;                             // as the first message has it
  std::string wrong_;
};

std::vector<Topology> every_network() {
  std::vector<Topology> all;
  for (const int p : {2, 3, 4, 5, 6, 7, 8, 16}) {
    all.push_back(link_topology(SipTopology::ring_1d, p));
    all.push_back(joined_topology(SipTopology::full_mesh, p));
  }
  for (const SipTopology kind : {SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap}) {
    for (const auto& [w, h] : {std::pair{1, 4},
                               {2, 2},
                               {2, 3},
                               {3, 2},
                               {3, 3},
                               {4, 2},
                               {4, 4},
                               {5, 3},
                               {4, 6},
                               {8, 2}}) {
      all.push_back(link_topology(kind, w, h));
    }
  }
  all.push_back(joined_topology(SipTopology::torus_3d, 2, 2, 2));
  all.push_back(joined_topology(SipTopology::torus_3d, 2, 3, 2));
  all.push_back(joined_topology(SipTopology::torus_3d, 4, 2, 2));
  all.push_back(in_nodes(joined_topology(SipTopology::full_mesh, 6), 3));
  all.push_back(in_nodes(joined_topology(SipTopology::switched, 12), 4));
  all.push_back(in_nodes(link_topology(SipTopology::ring_1d, 15), 5));
  all.push_back(in_boards(joined_topology(SipTopology::switched, 16), 4, 2));
  all.push_back(in_boards(link_topology(SipTopology::ring_1d, 12), 3, 2));
  return all;
}

GroupShape shape_of_all(const Topology& topology) {
  std::vector<int> sips(static_cast<std::size_t>(topology.system.sip_count));
  std::iota(sips.begin(), sips.end(), 0);
  return ccl::shape_of_sips(topology, sips);
}

// Visits each algorithm and collective that a group can run, if its plans have no switch's sums.
template <class Visit>
void for_each_planned(const GroupShape& shape, const Visit& visit) {
  for (const ccl::Algorithm& algorithm : ccl::library_algorithms()) {
    if (algorithm.plan == nullptr || algorithm.network == ccl::Network::adds_up) continue;
    if (!describe_misfit(algorithm, shape).empty()) continue;
    for (const CollectiveKind kind : ccl::kPlannedKinds) {
      if (serves(algorithm, kind)) visit(algorithm, kind);
    }
  }
}

TEST_CASE("a shape has a tree over all members, and disjoint ones of a grid", "[ccl][plan]") {
  for (const Topology& topology : every_network()) {
    const GroupShape shape = shape_of_all(topology);
    CAPTURE(name_of(topology.system.topology), shape.size, topology.system.nodes.count);
    CHECK(std::ssize(shape.tree) == shape.size);
    const bool is_line = shape.rows.size() == 1 || shape.columns.size() == 1;
    CHECK((shape.trees == nullptr) == is_line);
  }
}

TEST_CASE("in the plans of members what one sends another takes, and all have the result once",
          "[ccl][plan]") {
  for (const Topology& topology : every_network()) {
    const GroupShape shape = shape_of_all(topology);
    for_each_planned(shape, [&](const ccl::Algorithm& algorithm, CollectiveKind kind) {
      const bool has_root = traits_of(kind).root != distributed::Root::none;
      for (int root = 0; root < (has_root ? shape.size : 1); root += shape.size / 4 + 1) {
        CAPTURE(name_of(topology.system.topology), topology.system.w, topology.system.h,
                topology.system.nodes.count, algorithm.name, traits_of(kind).name, root);
        CHECK(Members(algorithm, shape, kind, root).run() == "");
      }
    });
  }
}

Plan plan_of(const ccl::Algorithm& algorithm, const GroupShape& shape, CollectiveKind kind,
             int self, int root = 0) {
  Plan plan(kind, self);
  algorithm.plan({shape, kind, root, self, {}}, plan);
  return plan;
}

TEST_CASE("plans in a column are those in a row", "[ccl][plan]") {
  for (const SipTopology kind : {SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap}) {
    for (const int size : {2, 3, 4, 8}) {
      const GroupShape row = shape_of_all(link_topology(kind, size, 1));
      const GroupShape column = shape_of_all(link_topology(kind, 1, size));
      for_each_planned(row, [&](const ccl::Algorithm& algorithm, CollectiveKind collective) {
        CAPTURE(name_of(kind), size, algorithm.name, traits_of(collective).name);
        for (int self = 0; self < size; ++self) {
          const Plan one = plan_of(algorithm, row, collective, self);
          const Plan other = plan_of(algorithm, column, collective, self);
          CHECK(one.chunk_count == other.chunk_count);
          CHECK(one.channels == other.channels);
          CHECK(one.length == other.length);
          CHECK(one.width == other.width);
          CHECK(one.moves.size() == other.moves.size());
        }
      });
    }
  }
}

// Slices follow each other one by one, so that a member has all moves of the plan at a time.
TEST_CASE("the width of packed trees is the most messages and values of a member", "[ccl][plan]") {
  const ccl::Algorithm& trees = *ccl::find_algorithm("packed_trees");
  for (const Topology& topology : every_network()) {
    const GroupShape shape = shape_of_all(topology);
    if (!describe_misfit(trees, shape).empty()) continue;
    for (const CollectiveKind kind : ccl::kPlannedKinds) {
      if (!serves(trees, kind)) continue;
      CAPTURE(name_of(topology.system.topology), shape.size, traits_of(kind).name);
      int width = 0;
      int most = 0;
      for (int self = 0; self < shape.size; ++self) {
        const Plan plan = plan_of(trees, shape, kind, self);
        int all = 0;
        for (const Move& move : plan.moves) all += std::max(1, static_cast<int>(move.from.size()));
        most = std::max(most, all);
        width = plan.width;
      }
      CHECK(width == most);
    }
  }
}

// Links are alike, so that the least latency is that of the fewest.
TEST_CASE("blocks of pairs take the shortest ways, and at each time are sent before all else",
          "[ccl][plan]") {
  for (const auto& [w, h] : {std::pair{6, 1}, {7, 1}, {4, 4}, {5, 3}, {4, 6}, {8, 2}}) {
    const Topology topology =
        link_topology(h == 1 ? SipTopology::ring_1d : SipTopology::torus_2d, w, h);
    const GroupShape shape = shape_of_all(topology);
    const sim::SipNetwork network(topology);
    for (const auto* const name : {"pairs", "pairs_at_once", "pairs_spread"}) {
      for (const CollectiveKind kind :
           {CollectiveKind::all_to_all, CollectiveKind::gather, CollectiveKind::scatter}) {
        CAPTURE(w, h, name, traits_of(kind).name);
        std::map<std::tuple<int, int, int>, Time> ways;  // of blocks, by giver, taker and chunk
        for (int self = 0; self < shape.size; ++self) {
          Plan plan = plan_of(*ccl::find_algorithm(name), shape, kind, self);
          std::ranges::stable_sort(plan.moves, {}, [](const Move& move) {
            return std::tuple(move.time, move.stage, move.chunks);
          });
          std::set<int> late;  // times of moves for which no other member waits, or that wait
          for (const Move& move : plan.moves) {
            if (move.has_source && !move.to.empty()) CHECK(!late.contains(move.time));
            if (move.to.empty() || !move.has_source) late.insert(move.time);
            for (int chunk = move.chunks.begin; chunk < move.chunks.end; ++chunk) {
              for (const int to : move.to) {
                ways[{move.chunks.giver, move.chunks.taker, chunk}] += network.latency(self, to);
              }
            }
          }
        }
        CHECK(ways.size() > 0);
        for (const auto& [block, way] : ways) {
          CHECK(way == network.latency(std::get<0>(block), std::get<1>(block)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace kernbench::test::plan_test
