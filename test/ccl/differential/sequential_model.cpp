#include "test/ccl/differential/sequential_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace kernbench::test::differential {

namespace {

using State = std::vector<std::vector<Elements>>;  // [rank][tensor]

const Call& call_of(const Step& step, int rank) {
  return *step.calls[static_cast<std::size_t>(rank)];
}

class Values {
 public:
  explicit Values(const Program& program) : program_(program) {
    for (int rank = 0; rank < program.ranks; ++rank) {
      outcome_.seen.emplace_back();
      auto& tensors = outcome_.tensors.emplace_back();
      for (int tensor = 0; tensor < kTensors; ++tensor) {
        Elements& elements = tensors.emplace_back();
        for (std::int64_t i = 0; i < program.elements; ++i) {
          elements.push_back(initial(rank, tensor, i));
        }
      }
    }
  }

  Outcome run() {
    for (const Step& step : program_.steps) {
      if (step.kind <= Kind::barrier) {
        collective(step);
      } else if (step.kind <= Kind::exchange) {
        message(step);
      } else {
        alone(step);
      }
    }
    return std::move(outcome_);
  }

 private:
  Elements& at(int rank, const Operand& operand) {
    return outcome_
        .tensors[static_cast<std::size_t>(rank)][static_cast<std::size_t>(operand.tensor)];
  }

  Elements reduced(const Step& step, const std::vector<Elements>& given) const {
    Elements result = given.front();
    for (std::size_t member = 1; member < given.size(); ++member) {
      for (std::size_t i = 0; i < result.size(); ++i) {
        const double other = given[member][i];
        if (step.op == ReduceOp::sum) result[i] += other;
        if (step.op == ReduceOp::max) result[i] = std::max(result[i], other);
        if (step.op == ReduceOp::min) result[i] = std::min(result[i], other);
      }
    }
    return result;
  }

  void collective(const Step& step) {
    const auto& members = program_.groups[static_cast<std::size_t>(step.group)];
    std::vector<std::vector<Elements>> given;  // [member][block], all read before any is written
    for (const int rank : members) {
      auto& blocks = given.emplace_back();
      for (const Operand& operand : call_of(step, rank).gives) blocks.push_back(at(rank, operand));
    }
    const auto root =
        static_cast<std::size_t>(std::ranges::find(members, step.root) - members.begin());
    for (std::size_t self = 0; self < members.size(); ++self) {
      const std::vector<Operand>& takes = call_of(step, members[self]).takes;
      for (std::size_t i = 0; i < takes.size(); ++i) {
        const auto value = taken(step, given, self, root, i);
        if (value) at(members[self], takes[i]) = *value;
      }
    }
  }

  // The value that member `self` gets as its block `i`; nullopt: it gets none.
  std::optional<Elements> taken(const Step& step, const std::vector<std::vector<Elements>>& given,
                                std::size_t self, std::size_t root, std::size_t i) const {
    const auto of_block = [&](std::size_t block) {
      std::vector<Elements> blocks;
      for (const auto& member : given) blocks.push_back(member[block]);
      return blocks;
    };
    switch (step.kind) {
      case Kind::all_reduce:
        return reduced(step, of_block(0));
      case Kind::reduce:
        if (self != root) return std::nullopt;
        return reduced(step, of_block(0));
      case Kind::broadcast:
        return given[root][0];
      case Kind::reduce_scatter:
        return reduced(step, of_block(self));
      case Kind::scatter:
        return given[root][self];
      case Kind::all_to_all:
        return given[i][self];
      default:  // all_gather, gather
        return given[i][0];
    }
  }

  void message(const Step& step) {
    const Elements from_root = at(step.root, call_of(step, step.root).gives.front());
    if (step.kind == Kind::exchange) {
      const Elements from_peer = at(step.peer, call_of(step, step.peer).gives.front());
      at(step.root, call_of(step, step.root).takes.front()) = from_peer;
    }
    at(step.peer, call_of(step, step.peer).takes.front()) = from_root;
  }

  void alone(const Step& step) {
    const Call& call = call_of(step, step.root);
    const auto given = [&](std::size_t i) { return at(step.root, call.gives[i]); };
    auto& seen = outcome_.seen[static_cast<std::size_t>(step.root)];
    switch (step.kind) {
      case Kind::store:
      case Kind::write:
        for (const Operand& operand : call.takes) {
          at(step.root, operand).assign(static_cast<std::size_t>(program_.elements), step.value);
        }
        return;
      case Kind::move: {
        Elements moved = given(0);
        for (double& element : moved) element += step.value;
        at(step.root, call.takes.front()) = moved;
        return;
      }
      case Kind::copy:
        at(step.root, call.takes.front()) = given(0);
        return;
      case Kind::read:
        seen.emplace_back();
        for (const Operand& operand : call.gives) {
          std::ranges::copy(at(step.root, operand), std::back_inserter(seen.back()));
        }
        return;
      case Kind::add: {
        Elements sum = given(0);
        const Elements other = given(1);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
        seen.push_back(sum);
        return;
      }
      default:
        return;
    }
  }

  const Program& program_;
  Outcome outcome_;
};

std::set<int> tensors_of(const std::vector<Operand>& operands) {
  std::set<int> tensors;
  for (const Operand& operand : operands) tensors.insert(operand.tensor);
  return tensors;
}

bool meet(const std::set<int>& a, const std::set<int>& b) {
  return std::ranges::any_of(a, [&](int tensor) { return b.contains(tensor); });
}

// The tensors that a rank's call of a step reads and writes.
struct Uses {
  std::set<int> reads;
  std::set<int> writes;
};

Uses uses_of(const Step& step, int rank) {
  const Call& call = call_of(step, rank);
  Uses uses{tensors_of(call.gives), tensors_of(call.takes)};
  const bool keeps_it = (step.kind == Kind::broadcast && step.root == rank) ||
                        (step.kind == Kind::reduce && step.root != rank);
  if (keeps_it) uses.writes.clear();
  return uses;
}

bool is_collective(const Step& step) {
  return step.kind <= Kind::barrier;
}

// The number of the stream in which a step's calls are ordered; every message has its own stream.
int stream_of(const Step& step, int number) {
  return is_collective(step) ? step.group : -1 - number;
}

bool outputs_overlap(const Step& step, const Call& call) {
  return is_collective(step) && tensors_of(call.takes).size() < call.takes.size();
}

}  // namespace

Outcome expected_outcome(const Program& program) {
  return Values(program).run();
}

// A wait for one call of a group also waits for the group's earlier calls.
void PendingCalls::know(int step) {
  const auto known =
      std::ranges::find_if(pending_, [&](const Pending& each) { return each.step == step; });
  if (known == pending_.end()) return;
  const Pending last = *known;
  std::vector<Pending> left;
  for (auto each = pending_.begin(); each != pending_.end(); ++each) {
    if (each > known || each->stream != last.stream) left.push_back(*each);
  }
  pending_ = std::move(left);
}

void PendingCalls::know_all_of(int tensor) {
  std::vector<int> steps;
  for (Pending& each : pending_) {
    if (!each.reads.contains(tensor) && !each.writes.contains(tensor)) continue;
    if (each.stream >= 0) {
      steps.push_back(each.step);
    } else {  // an exchange's send is only known by a wait
      each.writes.clear();
    }
  }
  for (const int step : steps) know(step);
}

std::vector<int> PendingCalls::obstacles(const Program& program, int rank, int number) const {
  const Step& step = program.steps[static_cast<std::size_t>(number)];
  if (step.kind == Kind::wait || step.kind == Kind::read) return {};
  Uses uses = uses_of(step, rank);
  PendingCalls left = *this;
  if (step.kind == Kind::copy) {  // a host read of its source comes first
    for (const int tensor : uses.reads) left.know_all_of(tensor);
    uses.reads.clear();
  }
  std::vector<int> found;
  for (const Pending& each : left.pending_) {
    if (each.stream == stream_of(step, number)) continue;
    if (meet(each.writes, uses.reads) || meet(each.writes, uses.writes) ||
        meet(each.reads, uses.writes)) {
      found.push_back(each.step);
    }
  }
  return found;
}

std::string PendingCalls::call(const Program& program, int rank, int number) {
  const Step& step = program.steps[static_cast<std::size_t>(number)];
  const Call& call = call_of(step, rank);
  if (outputs_overlap(step, call)) return "KB-C020";
  if (!obstacles(program, rank, number).empty()) return "KB-G003";
  Uses uses = uses_of(step, rank);
  if (step.kind == Kind::wait) know(step.waits_for);
  if (step.kind == Kind::read || step.kind == Kind::copy) {
    for (const int tensor : uses.reads) know_all_of(tensor);
  }
  if (step.kind > Kind::exchange) return "";
  if (!call.is_async) {  // then its group's earlier calls have ended
    std::erase_if(pending_,
                  [&](const Pending& each) { return each.stream == stream_of(step, number); });
    return "";
  }
  if (!is_collective(step)) uses.reads.clear();  // the version at the call is sent
  pending_.push_back({number, stream_of(step, number), uses.reads, uses.writes});
  return "";
}

std::vector<int> PendingCalls::waitable() const {
  std::vector<int> steps;
  for (const Pending& each : pending_) steps.push_back(each.step);
  return steps;
}

std::string to_string(const Refusal& refusal) {
  return fmt::format("{} of rank {} in step {}", refusal.code, refusal.rank, refusal.step);
}

std::set<Refusal> refusals(const Program& program) {
  std::set<Refusal> found;
  for (int rank = 0; rank < program.ranks; ++rank) {
    PendingCalls pending;
    for (const int step : program.orders[static_cast<std::size_t>(rank)]) {
      const std::string code = pending.call(program, rank, step);
      if (code.empty()) continue;
      found.insert({rank, step, code});
      break;
    }
  }
  return found;
}

}  // namespace kernbench::test::differential
