#include "test/ccl/differential/shared_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "test/ccl/differential/sequential_model.h"

namespace kernbench::test::differential {

namespace {

constexpr std::array kNames = {"all_reduce", "broadcast", "reduce",  "all_gather", "reduce_scatter",
                               "all_to_all", "gather",    "scatter", "barrier",    "message",
                               "exchange",   "store",     "move",    "add",        "write",
                               "copy",       "read",      "wait"};

template <class Values>
auto& of(Values& values, int index) {
  return values[static_cast<std::size_t>(index)];
}

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {
    constexpr std::array kRanks = {1, 2, 2, 2, 3, 3, 4, 4, 4, 4};
    program_.ranks = kRanks[below(kRanks.size())];
    program_.groups = groups_of(program_.ranks);
    program_.elements = some_elements();
    pending_.resize(static_cast<std::size_t>(program_.ranks));
    program_.orders.resize(static_cast<std::size_t>(program_.ranks));
    is_careful_ = chance(28);
  }

  Program run() {
    for (auto count = 5 + below(14); count > 0; --count) add_something();
    for (int rank = 0; rank < program_.ranks; ++rank) {
      std::vector<int> left = of(pending_, rank).waitable();
      std::ranges::shuffle(left, random_);
      for (const int step : left) add_wait(rank, step);
    }
    for (std::vector<int>& order : program_.orders) shuffle(order);
    return std::move(program_);
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }
  bool chance(std::size_t percent) { return below(100) < percent; }

  std::int64_t some_elements() {
    const std::size_t size = below(1000);
    if (size < 700) return 1 + static_cast<std::int64_t>(below(6));
    if (size < 970) return 1 + static_cast<std::int64_t>(below(300));
    if (size < 999) return 1 + static_cast<std::int64_t>(below(5'000));
    return 1 + static_cast<std::int64_t>(below(50'000));
  }

  Operand some_tensor() {
    constexpr std::array kViews = {Operand::View::none, Operand::View::none,
                                   Operand::View::detached, Operand::View::reshaped};
    return {static_cast<int>(below(kTensors)), kViews[below(kViews.size())]};
  }
  // Draws tensors, which differ unless `may_repeat`.  Two of them are often the rows of the matrix.
  std::vector<Operand> some_tensors(std::size_t count, bool may_repeat) {
    std::array<int, kTensors> all{};
    std::iota(all.begin(), all.end(), 0);
    std::ranges::shuffle(all, random_);
    if (count == 2 && chance(30)) return {{kFirstRow}, {kFirstRow + 1}};
    std::vector<Operand> operands;
    for (std::size_t i = 0; i < count; ++i) {
      operands.push_back(some_tensor());
      if (!may_repeat) operands.back().tensor = all[i];
    }
    return operands;
  }

  void add_something() {
    const std::size_t what = below(100);
    if (what < 40) return add_collective();
    if (what < 55) return add_message();
    if (what < 90) return add_lone();
    const int rank = static_cast<int>(below(static_cast<std::size_t>(program_.ranks)));
    const std::vector<int> works = of(pending_, rank).waitable();
    if (!works.empty()) add_wait(rank, works[below(works.size())]);
  }

  Step new_step(Kind kind) {
    Step step;
    step.kind = kind;
    step.value = 1 + static_cast<int>(below(5));
    step.calls.resize(static_cast<std::size_t>(program_.ranks));
    return step;
  }

  void add_collective() {
    Step step = new_step(static_cast<Kind>(below(9)));
    step.group = static_cast<int>(below(program_.groups.size()));
    const std::vector<int>& members = of(program_.groups, step.group);
    step.root = members[below(members.size())];
    constexpr std::array kOps = {ReduceOp::sum, ReduceOp::max, ReduceOp::min};
    step.op = kOps[below(kOps.size())];
    const bool reduces = step.kind == Kind::all_reduce || step.kind == Kind::reduce ||
                         step.kind == Kind::reduce_scatter;
    if (reduces && step.op == ReduceOp::sum && ++sums_ > kMostSums) step.op = ReduceOp::max;
    for (const int rank : members) {
      of(step.calls, rank) = some_call(step, members.size(), rank == step.root);
    }
    add(step);
  }

  Call some_call(const Step& step, std::size_t members, bool is_root) {
    Call call;
    call.is_async = chance(65);
    const bool may_repeat = !is_careful_ && chance(4);
    switch (step.kind) {
      case Kind::all_reduce:
      case Kind::broadcast:
      case Kind::reduce:
        call.gives = {some_tensor()};
        call.takes = call.gives;
        break;
      case Kind::all_gather:
        call.gives = {some_tensor()};
        call.takes = some_tensors(members, may_repeat);
        break;
      case Kind::reduce_scatter:
        call.gives = some_tensors(members, true);
        call.takes = {some_tensor()};
        break;
      case Kind::all_to_all:
        call.gives = some_tensors(members, true);
        call.takes = some_tensors(members, may_repeat);
        break;
      case Kind::gather:
        call.gives = {some_tensor()};
        if (is_root) call.takes = some_tensors(members, may_repeat);
        break;
      case Kind::scatter:
        call.takes = {some_tensor()};
        if (is_root) call.gives = some_tensors(members, true);
        break;
      default:
        break;
    }
    return call;
  }

  int some_group_of(int rank, int other) {
    const auto has = [&](const std::vector<int>& members) {
      return std::ranges::count(members, rank) > 0 && std::ranges::count(members, other) > 0;
    };
    std::size_t group = below(program_.groups.size());
    while (!has(program_.groups[group])) group = (group + 1) % program_.groups.size();
    return static_cast<int>(group);
  }

  void add_message() {
    if (program_.ranks == 1) return;
    Step step = new_step(chance(65) ? Kind::message : Kind::exchange);
    const auto ranks = static_cast<std::size_t>(program_.ranks);
    step.root = static_cast<int>(below(ranks));
    step.peer = (step.root + 1 + static_cast<int>(below(ranks - 1))) % program_.ranks;
    step.group = some_group_of(step.root, step.peer);
    for (const int rank : {step.root, step.peer}) {
      Call call;
      call.is_async = step.kind == Kind::exchange || chance(75);
      const Operand tensor = some_tensor();
      if (step.kind == Kind::exchange || rank == step.root) call.gives = {tensor};
      if (step.kind == Kind::exchange || rank == step.peer) {
        call.takes = {chance(40) ? tensor : some_tensor()};
      }
      of(step.calls, rank) = call;
    }
    add(step);
  }

  void add_lone() {
    Step step = new_step(static_cast<Kind>(static_cast<std::size_t>(Kind::store) + below(6)));
    step.root = static_cast<int>(below(static_cast<std::size_t>(program_.ranks)));
    Call call;
    const Kind kind = step.kind;
    if (kind != Kind::store && kind != Kind::write) call.gives = {some_tensor()};
    if (kind == Kind::add) call.gives.push_back(some_tensor());
    if (kind != Kind::add && kind != Kind::read) call.takes = {some_tensor()};
    if (kind == Kind::store || kind == Kind::write || kind == Kind::read) {
      std::vector<Operand>& operands = kind == Kind::read ? call.gives : call.takes;
      if (chance(15)) operands = {{kFirstRow}, {kFirstRow + 1}};
    }
    of(step.calls, step.root) = call;
    add(step);
  }

  void add_wait(int rank, int waits_for) {
    Step step = new_step(Kind::wait);
    step.root = rank;
    step.waits_for = waits_for;
    of(step.calls, rank).emplace().polls = chance(30);
    append(step);
  }

  // Adds a step, preceded by the waits that it needs; for careless ranks some waits are left out.
  void add(const Step& step) {
    program_.steps.push_back(step);
    std::vector<std::pair<int, int>> waits;
    for (int rank = 0; rank < program_.ranks; ++rank) {
      if (!of(step.calls, rank)) continue;
      const int number = static_cast<int>(program_.steps.size()) - 1;
      for (const int obstacle : of(pending_, rank).obstacles(program_, rank, number)) {
        if (is_careful_ || chance(50)) waits.emplace_back(rank, obstacle);
      }
    }
    program_.steps.pop_back();
    for (const auto& [rank, obstacle] : waits) add_wait(rank, obstacle);
    append(step);
  }

  void append(const Step& step) {
    const int number = static_cast<int>(program_.steps.size());
    program_.steps.push_back(step);
    for (int rank = 0; rank < program_.ranks; ++rank) {
      if (!of(step.calls, rank)) continue;
      of(program_.orders, rank).push_back(number);
      of(pending_, rank).call(program_, rank, number);
    }
  }

  // Calls that do not block, of different groups or messages and of different tensors, may come in
  // any order.
  void shuffle(std::vector<int>& order) {
    const int rank = static_cast<int>(&order - program_.orders.data());
    for (std::size_t swaps = order.size(); swaps > 0 && order.size() > 1; --swaps) {
      const std::size_t i = below(order.size() - 1);
      if (are_independent(order[i], order[i + 1], rank)) std::swap(order[i], order[i + 1]);
    }
  }

  bool are_independent(int a, int b, int rank) const {
    const Step& first = of(program_.steps, a);
    const Step& second = of(program_.steps, b);
    if (first.kind > Kind::exchange || second.kind > Kind::exchange) return false;
    const bool share_stream =
        first.kind <= Kind::barrier && second.kind <= Kind::barrier && first.group == second.group;
    const Call& of_first = *of(first.calls, rank);
    const Call& of_second = *of(second.calls, rank);
    if (share_stream || !of_first.is_async || !of_second.is_async) return false;
    const auto uses = [](const Call& call, const Operand& operand) {
      const auto is_it = [&](const Operand& other) { return other.tensor == operand.tensor; };
      return std::ranges::any_of(call.gives, is_it) || std::ranges::any_of(call.takes, is_it);
    };
    const auto meets = [&](const Operand& operand) { return uses(of_second, operand); };
    return std::ranges::none_of(of_first.gives, meets) &&
           std::ranges::none_of(of_first.takes, meets);
  }

  static constexpr int kMostSums = 5;  // each is at most 4 times its summands: exact in f32

  std::mt19937 random_;
  Program program_;
  std::vector<PendingCalls> pending_;
  bool is_careful_ = false;
  int sums_ = 0;
};

std::string to_text(const std::vector<Operand>& operands) {
  std::vector<std::string> texts;
  for (const Operand& operand : operands) {
    constexpr std::array kViews = {"", ".detach()", ".reshape()"};
    texts.push_back(
        fmt::format("t{}{}", operand.tensor, kViews[static_cast<std::size_t>(operand.view)]));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

bool are_rows(const std::vector<Operand>& operands) {
  return operands.size() == 2 && operands[0].tensor == kFirstRow &&
         operands[1].tensor == kFirstRow + 1;
}

double initial(int rank, int tensor, std::int64_t index) {
  return static_cast<double>((7 * rank + 3 * tensor + 5 * index) % 9 - 4);
}

std::vector<std::vector<int>> groups_of(int ranks) {
  switch (ranks) {
    case 1:
      return {{0}, {0}};
    case 2:
      return {{0, 1}, {0, 1}, {1, 0}, {1}};
    case 3:
      return {{0, 1, 2}, {0, 1}, {2, 0}, {1, 2, 0}};
    default:
      return {{0, 1, 2, 3}, {0, 1}, {3, 1}, {0, 2, 3}, {2, 0, 1}, {0, 1, 2, 3}};
  }
}

Program make_program(std::uint32_t seed) {
  return Generator(seed).run();
}

std::string to_string(const Program& program) {
  std::string text = fmt::format("{} ranks, {} elements, groups {}\n", program.ranks,
                                 program.elements, fmt::join(program.groups, " "));
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    text += fmt::format("step {}: {} group {} op {} root {} peer {} value {} waits for {}\n", i,
                        kNames[static_cast<std::size_t>(step.kind)], step.group, name_of(step.op),
                        step.root, step.peer, step.value, step.waits_for);
    for (std::size_t rank = 0; rank < step.calls.size(); ++rank) {
      if (!step.calls[rank]) continue;
      const Call& call = *step.calls[rank];
      text += fmt::format("  rank {}: gives [{}] takes [{}]{}{}\n", rank, to_text(call.gives),
                          to_text(call.takes), call.is_async ? " async" : "",
                          call.polls ? " polls" : "");
    }
  }
  for (std::size_t rank = 0; rank < program.orders.size(); ++rank) {
    text += fmt::format("rank {} calls {}\n", rank, program.orders[rank]);
  }
  return text;
}

}  // namespace kernbench::test::differential
