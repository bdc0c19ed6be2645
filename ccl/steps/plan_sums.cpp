#include "ccl/steps/plan_sums.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <tuple>

#include "sim_engine/base/check.h"

namespace kernbench::ccl {

namespace {

using Tree = SumTrees::Tree;

// The messages of one chunk from one node to another.
struct ChunkWay {
  int from = 0;
  int to = 0;
  int taker = kNobody;
  int chunk = 0;

  friend auto operator<=>(const ChunkWay&, const ChunkWay&) = default;
};

// What nodes send of one chunk to the switch.  Each takes the n-th sum after the one before it.
struct ChunkAtSwitch {
  std::map<int, std::vector<Tree>> sent;  // by node
  std::map<int, std::size_t> taken;       // likewise: how many sums
};

class PlanSums {
 public:
  PlanSums(const std::vector<std::shared_ptr<const Plan>>& plans,
           const std::function<Tree(int node)>& own, SumTrees& trees)
      : plans_(plans), own_(own), trees_(trees), values_(plans.size()) {}

  SumsOfPlan add_up() {
    for (const MoveOfNode& at : moves_in_order()) run(at);
    KB_CHECK(messages_.empty(), "{} chunks are sent that nobody takes", messages_.size());
    return std::move(stored_);
  }

 private:
  struct MoveOfNode {
    int node = 0;
    std::size_t index = 0;
  };

  const Plan& plan(int node) const { return *plans_[static_cast<std::size_t>(node)]; }
  const Move& move_at(const MoveOfNode& at) const { return plan(at.node).moves[at.index]; }

  // As a kernel orders its steps (Expansion): a message is taken later than it is sent.
  std::vector<MoveOfNode> moves_in_order() {
    std::vector<MoveOfNode> all;
    for (int node = 0; node < std::ssize(plans_); ++node) {
      values_[static_cast<std::size_t>(node)].resize(plan(node).moves.size());
      for (std::size_t i = 0; i < plan(node).moves.size(); ++i) all.push_back({node, i});
    }
    std::ranges::stable_sort(all, {}, [this](const MoveOfNode& at) {
      const Move& move = move_at(at);
      return std::tuple(move.time, move.stage, move.chunks);
    });
    return all;
  }

  void run(const MoveOfNode& at) {
    const Move& move = move_at(at);
    const int taker = move.chunks.taker;
    for (int chunk = move.chunks.begin; chunk < move.chunks.end; ++chunk) {
      const Tree sum = sum_of(at, chunk);
      values_[static_cast<std::size_t>(at.node)][at.index].push_back(sum);
      for (const int to : move.to) send(at.node, to, taker, chunk, sum);
      if (!move.stores) continue;
      SumsOfNodes& sums = stored_[{taker, chunk}];
      sums.resize(plans_.size(), SumTrees::kNone);
      sums[static_cast<std::size_t>(at.node)] = sum;
    }
  }

  // Messages come first and the own value last, as in compute_value() of step.cpp.
  Tree sum_of(const MoveOfNode& at, int chunk) {
    const Move& move = move_at(at);
    Tree sum = SumTrees::kNone;
    const auto add = [&](Tree next) {
      sum = sum == SumTrees::kNone ? next : trees_.add(sum, next);
    };
    for (const int from : move.from) {
      add(from == kSwitch ? sum_at_switch(at.node, move.chunks.taker, chunk)
                          : next_message({from, at.node, move.chunks.taker, chunk}));
    }
    if (move.has_source) add(own_(at.node));
    for (const int held : move.held) {
      const ChunkRange& chunks = plan(at.node).moves[static_cast<std::size_t>(held)].chunks;
      if (chunk < chunks.begin || chunk >= chunks.end) continue;
      add(values_[static_cast<std::size_t>(at.node)][static_cast<std::size_t>(held)]
                 [static_cast<std::size_t>(chunk - chunks.begin)]);
    }
    KB_CHECK(sum != SumTrees::kNone, "node {} has nothing of chunk {}", at.node, chunk);
    return sum;
  }

  void send(int from, int to, int taker, int chunk, Tree sum) {
    if (to == kSwitch) {
      at_switch_[{taker, chunk}].sent[from].push_back(sum);
    } else {
      messages_[{from, to, taker, chunk}].push_back(sum);
    }
  }
  Tree next_message(const ChunkWay& way) {
    const auto found = messages_.find(way);
    KB_CHECK(found != messages_.end(), "node {} sends nothing of chunk {} to node {}", way.from,
             way.chunk, way.to);
    const Tree sum = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) messages_.erase(found);
    return sum;
  }
  // The switch adds in the order of members (sim::SwitchSum).
  Tree sum_at_switch(int node, int taker, int chunk) {
    ChunkAtSwitch& at = at_switch_[{taker, chunk}];
    const std::size_t number = at.taken[node]++;
    Tree sum = SumTrees::kNone;
    for (const auto& [from, sent] : at.sent) {
      const Tree next = sent.at(number);
      sum = sum == SumTrees::kNone ? next : trees_.add(sum, next);
    }
    return sum;
  }

  const std::vector<std::shared_ptr<const Plan>>& plans_;
  const std::function<Tree(int node)>& own_;
  SumTrees& trees_;
  std::vector<std::vector<std::vector<Tree>>> values_;  // by node, move and chunk of the move
  std::map<ChunkWay, std::deque<Tree>> messages_;
  std::map<std::pair<int, int>, ChunkAtSwitch> at_switch_;  // by taker and chunk
  SumsOfPlan stored_;
};

}  // namespace

SumsOfPlan add_up(const std::vector<std::shared_ptr<const Plan>>& plans,
                  const std::function<Tree(int node)>& own, SumTrees& trees) {
  return PlanSums(plans, own, trees).add_up();
}

}  // namespace kernbench::ccl
