#include "test/runtime/distributed/program_outcome.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace kernbench::test {

namespace {

using Kind = Step::Kind;

// True if two members may call these at the same time.
bool agree(const Step& a, const Step& b) {
  const bool reduces =
      a.kind == Kind::all_reduce || a.kind == Kind::reduce || a.kind == Kind::reduce_scatter;
  const bool has_root = a.kind == Kind::broadcast || a.kind == Kind::reduce ||
                        a.kind == Kind::gather || a.kind == Kind::scatter;
  return a.kind == b.kind && (a.kind == Kind::barrier || a.count == b.count) &&
         (!reduces || a.op == b.op) && (!has_root || a.root == b.root);
}

class Model {
 public:
  Model(const RandomProgram& program, const std::vector<std::vector<Step>>& steps)
      : program_(program), steps_(steps), ranks_(steps.size()), groups_(program.groups.size()) {}

  std::string run(std::mt19937& random) {
    std::vector<std::size_t> order(ranks_.size());
    std::iota(order.begin(), order.end(), 0U);
    for (bool moves = true; moves && error_.empty();) {
      moves = false;
      std::ranges::shuffle(order, random);
      for (const std::size_t rank : order) moves = (error_.empty() && advance(rank)) || moves;
    }
    const bool all_returned = std::ranges::all_of(ranks_, &Rank::has_returned);
    return error_.empty() && !all_returned ? "KB-D001" : error_;
  }

 private:
  struct Rank {
    std::size_t next = 0;  // of its steps
    bool has_returned = false;
    std::optional<std::pair<std::size_t, std::size_t>> waits_for;  // group, call
    std::vector<std::pair<std::size_t, std::size_t>> issued;       // waited for at the end
  };
  struct Call {
    Step first;
    std::size_t arrived = 0;
  };
  struct Group {
    std::vector<Call> calls;
    std::map<std::size_t, std::size_t> called;  // by rank: how many
  };

  bool is_complete(const std::pair<std::size_t, std::size_t>& call) const {
    return groups_[call.first].calls[call.second].arrived == program_.groups[call.first].size();
  }

  // Does one thing, if the rank can.
  bool advance(std::size_t number) {
    Rank& rank = ranks_[number];
    if (rank.has_returned) return false;
    if (rank.waits_for && !is_complete(*rank.waits_for)) return false;
    rank.waits_for.reset();
    if (rank.next < steps_[number].size()) {
      call(number, steps_[number][rank.next++]);
    } else {
      if (!std::ranges::all_of(rank.issued, [&](const auto& each) { return is_complete(each); })) {
        return false;
      }
      rank.has_returned = true;
    }
    check_absent();
    return true;
  }

  void call(std::size_t number, const Step& step) {
    if (!program_.takes_part(step, static_cast<int>(number))) return;
    Group& group = groups_[step.group];
    const std::size_t index = group.called[number]++;
    if (index == group.calls.size()) group.calls.push_back({step});
    Call& met = group.calls[index];
    if (met.arrived++ > 0 && !agree(met.first, step)) error_ = "KB-C001";
    Rank& rank = ranks_[number];
    if (step.is_async) {
      rank.issued.emplace_back(step.group, index);
    } else {
      rank.waits_for.emplace(step.group, index);
    }
  }

  // Finds a call that some member has made and a member that has returned has not.
  void check_absent() {
    for (std::size_t group = 0; group < groups_.size() && error_.empty(); ++group) {
      for (const int member : program_.groups[group]) {
        const auto number = static_cast<std::size_t>(member);
        const bool lacks = groups_[group].called[number] < groups_[group].calls.size();
        if (ranks_[number].has_returned && lacks) error_ = "KB-C002";
      }
    }
  }

  const RandomProgram& program_;
  const std::vector<std::vector<Step>>& steps_;
  std::vector<Rank> ranks_;
  std::vector<Group> groups_;
  std::string error_;
};

}  // namespace

std::string outcome_of(std::mt19937& random, const RandomProgram& program,
                       const std::vector<std::vector<Step>>& steps) {
  return Model(program, steps).run(random);
}

}  // namespace kernbench::test
