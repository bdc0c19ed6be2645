// exhaustive() against schedules that are counted by hand, and by a search of its own.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "test/testing/planted_bugs.h"

namespace kernbench::test::exhaustive_test {
namespace {

using testing::exhaustive;
using testing::ExploreReport;
using testing::World;

constexpr int kAnyRank = -1;

// A step of a rank in a program of messages and of writes to one key of a Store.
struct Step {
  enum class Kind { send, isend, receive, write } kind = Kind::send;
  int peer = kAnyRank;
};
using MessageProgram = std::vector<std::vector<Step>>;  // by rank

// By rank, the senders of its messages in the order of its receives; last the ranks that wrote.
using Outcome = std::vector<std::vector<int>>;

// All outcomes of a program, by a search over its states: ranks go on until they wait or write, any
// of those that write may be next, and when nobody can go on any receive from any rank may get the
// first message of any sender.
class Outcomes {
 public:
  explicit Outcomes(const MessageProgram& program) : program_(program) {
    State begin;
    begin.next.assign(program.size(), 0);
    begin.sends_wait.assign(program.size(), false);
    begin.sent.assign(program.size(), {});
    begin.outcome.assign(program.size() + 1, {});
    search(std::move(begin));
  }
  const std::set<Outcome>& all() const { return all_; }
  bool has_deadlock() const { return has_deadlock_; }

 private:
  struct Sent {
    int from = 0;
    bool is_blocking = false;
    auto operator<=>(const Sent&) const = default;
  };
  struct State {
    std::vector<std::size_t> next;
    std::vector<bool> sends_wait;
    std::vector<std::vector<Sent>> sent;  // by receiver
    Outcome outcome;
    auto operator<=>(const State&) const = default;
  };

  const Step* step_of(const State& state, std::size_t rank) const {
    return state.next[rank] < program_[rank].size() ? &program_[rank][state.next[rank]] : nullptr;
  }

  void run_to_waits(State& state) const {
    for (std::size_t rank = 0; rank < program_.size(); ++rank) {
      const Step* step = nullptr;
      while (!state.sends_wait[rank] && (step = step_of(state, rank)) != nullptr &&
             step->kind != Step::Kind::receive && step->kind != Step::Kind::write) {
        const bool is_blocking = step->kind == Step::Kind::send;
        state.sent[static_cast<std::size_t>(step->peer)].push_back(
            {static_cast<int>(rank), is_blocking});
        state.sends_wait[rank] = is_blocking;
        ++state.next[rank];
      }
    }
  }

  // Lets the rank's receive get the first message of the sender.
  void match(State& state, std::size_t rank, int sender) const {
    auto& waiting = state.sent[rank];
    const auto taken = std::ranges::find(waiting, sender, &Sent::from);
    if (taken->is_blocking) state.sends_wait[static_cast<std::size_t>(sender)] = false;
    waiting.erase(taken);
    state.outcome[rank].push_back(sender);
    ++state.next[rank];
  }

  // Receives that name their sender match at once.
  void run_to_choice(State& state) const {
    for (bool goes_on = true; goes_on;) {
      run_to_waits(state);
      goes_on = false;
      for (std::size_t rank = 0; rank < program_.size() && !goes_on; ++rank) {
        const Step* const step = step_of(state, rank);
        if (step == nullptr || state.sends_wait[rank] || step->kind != Step::Kind::receive ||
            step->peer == kAnyRank) {
          continue;
        }
        goes_on =
            std::ranges::find(state.sent[rank], step->peer, &Sent::from) != state.sent[rank].end();
        if (goes_on) match(state, rank, step->peer);
      }
    }
  }

  std::vector<State> states_after(const State& state) const {
    std::vector<State> after;
    for (std::size_t rank = 0; rank < program_.size(); ++rank) {
      const Step* const step = step_of(state, rank);
      if (step == nullptr || state.sends_wait[rank] || step->kind != Step::Kind::write) continue;
      State& written = after.emplace_back(state);
      written.outcome.back().push_back(static_cast<int>(rank));
      ++written.next[rank];
    }
    if (!after.empty()) return after;
    for (std::size_t rank = 0; rank < program_.size(); ++rank) {
      const Step* const step = step_of(state, rank);
      if (step == nullptr || state.sends_wait[rank] || step->peer != kAnyRank) continue;
      std::set<int> senders;
      for (const Sent& sent : state.sent[rank]) senders.insert(sent.from);
      for (const int sender : senders) match(after.emplace_back(state), rank, sender);
    }
    return after;
  }

  void search(State state) {
    run_to_choice(state);
    if (!searched_.insert(state).second) return;
    std::vector<State> after = states_after(state);
    if (!after.empty()) {
      for (State& one : after) search(std::move(one));
      return;
    }
    bool is_over = true;
    for (std::size_t rank = 0; rank < program_.size(); ++rank) {
      is_over = is_over && step_of(state, rank) == nullptr && !state.sends_wait[rank];
    }
    if (is_over) all_.insert(state.outcome);
    has_deadlock_ = has_deadlock_ || !is_over;
  }

  const MessageProgram& program_;
  std::set<State> searched_;
  std::set<Outcome> all_;
  bool has_deadlock_ = false;
};

// Messages between random ranks, half of them to rank 0.  Each rank has its sends and receives in a
// random order, and three of four receives are from any rank.  So many steps besides write.
MessageProgram draw_program(std::mt19937& draws, int writes) {
  const auto below = [&](std::size_t count) { return static_cast<int>(draws() % count); };
  const std::size_t ranks = 3 + draws() % 2;
  MessageProgram program(ranks);
  for (int message = 2 + below(7); message > 0; --message) {
    const int from = below(ranks);
    const int other = (from + 1 + below(ranks - 1)) % static_cast<int>(ranks);
    const int to = draws() % 2 == 0 && from > 0 ? 0 : other;
    program[static_cast<std::size_t>(from)].push_back(
        {draws() % 2 == 0 ? Step::Kind::send : Step::Kind::isend, to});
    program[static_cast<std::size_t>(to)].push_back(
        {Step::Kind::receive, draws() % 4 == 0 ? from : kAnyRank});
  }
  for (; writes > 0; --writes) {
    program[static_cast<std::size_t>(below(ranks))].push_back({Step::Kind::write, 0});
  }
  for (auto& steps : program) std::ranges::shuffle(steps, draws);
  return program;
}

std::string to_text(const MessageProgram& program) {
  std::string text;
  for (const auto& steps : program) {
    for (const Step& step : steps)
      text += "SIRW"[static_cast<int>(step.kind)] + fmt::format("{} ", step.peer);
    text += "| ";
  }
  return text;
}

// Runs it in all schedules.  Adds the outcome of each.
ExploreReport exhaust(const MessageProgram& program, std::multiset<Outcome>& outcomes) {
  int runs = 0;
  return exhaustive({.ranks = static_cast<int>(program.size())}, [&](World& world) {
    Outcome outcome(program.size() + 1);
    const distributed::HashStore store(world.torch);
    world.run([&](int rank) {
      const auto own = static_cast<std::size_t>(rank);
      const Tensor x = world.torch.full({1}, rank);
      std::vector<distributed::Work> works;
      for (const Step& step : program[own]) {
        const auto peer = step.peer == kAnyRank ? std::nullopt : std::optional(step.peer);
        switch (step.kind) {
          case Step::Kind::send:
            world.torch.distributed.send(x, *peer);
            break;
          case Step::Kind::isend:
            works.push_back(world.torch.distributed.isend(x, *peer));
            break;
          case Step::Kind::receive:
            outcome[own].push_back(world.torch.distributed.recv(world.torch.zeros({1}), peer));
            break;
          case Step::Kind::write:
            store.set("key", std::to_string(rank));
            outcome.back().push_back(rank);
        }
      }
      for (const distributed::Work& work : works) work.wait();
    });
    if (++runs > 2) outcomes.insert(outcome);  // the usual schedule was run twice, to compare with
  });
}

TEST_CASE("exhaustive runs as many schedules as can be counted by hand") {
  const auto receive_from_any = [](int messages_of_each) {
    return [messages_of_each](World& world) {
      world.run([&](int rank) {
        const Tensor x = world.torch.full({1}, rank);
        const int all = messages_of_each * (world.size() - 1);
        for (int i = 0; rank == 0 && i < all; ++i) world.torch.distributed.recv(x);
        for (int i = 0; rank != 0 && i < messages_of_each; ++i) {
          world.torch.distributed.send(x, 0);
        }
      });
    };
  };
  // The messages of three ranks come in any of 3! orders.
  CHECK(exhaustive({.ranks = 4}, receive_from_any(1)).text() == "all 6 schedules");
  // Two messages of each of two ranks: 4! / (2! 2!).
  CHECK(exhaustive({.ranks = 3}, receive_from_any(2)).text() == "all 6 schedules");
  // Two of each of three ranks: 6! / (2! 2! 2!).
  CHECK(exhaustive({.ranks = 4}, receive_from_any(2)).text() == "all 90 schedules");
  // Three ranks add to one key: 3! orders.  Each adds to a key of its own: one.
  const auto add = [](bool shared) {
    return [shared](World& world) {
      const distributed::HashStore store(world.torch);
      world.run([&](int rank) { store.add(shared ? "all" : std::to_string(rank), 1); });
    };
  };
  CHECK(exhaustive({.ranks = 3}, add(true)).text() == "all 6 schedules");
  CHECK(exhaustive({.ranks = 3}, add(false)).text() == "all 1 schedule");
}

TEST_CASE("what a receive from any rank could get later counts, however late it is sent") {
  // Rank 1 computes before it sends, and rank 2 sends to rank 3 first.
  const auto late = [](World& world) {
    world.run([&](int rank) {
      const Tensor x = world.torch.full({1}, rank);
      if (rank == 0) {
        for (int i = 0; i < 2; ++i) world.torch.distributed.recv(x);
        return;
      }
      if (rank == 3) return (void)world.torch.distributed.recv(x, 2);
      const Tensor sum = x + x;
      if (rank == 2) world.torch.distributed.send(x, 3);
      world.torch.distributed.send(sum, 0);
    });
  };
  for (const char* const backend : {"local", "ahbm"}) {
    CHECK(exhaustive({.backend = backend}, late).text() == "all 2 schedules");
  }
  // Ranks 2 and 3 each send to rank 0, then to rank 1: 2 orders at each.
  const auto two_receivers = [](World& world) {
    world.run([&](int rank) {
      const Tensor x = world.torch.full({1}, rank);
      for (int i = 0; i < 2; ++i) {
        rank < 2 ? (void)world.torch.distributed.recv(x) : world.torch.distributed.send(x, i);
      }
    });
  };
  CHECK(exhaustive({}, two_receivers).text() == "all 4 schedules");
  // One key in three stores is three keys.
  const auto own_stores = [](World& world) {
    std::vector<distributed::HashStore> stores;
    for (int i = 0; i < 3; ++i) stores.emplace_back(world.torch);
    world.run([&](int rank) { stores[static_cast<std::size_t>(rank)].add("key", 1); });
  };
  CHECK(exhaustive({.ranks = 3}, own_stores).text() == "all 1 schedule");
}

TEST_CASE("a rank may poll a receive from any rank until it is done") {
  const auto polls = [](World& world) {
    world.run([&](int rank) {
      const Tensor x = world.torch.full({1}, rank);
      if (rank > 0) return world.torch.distributed.send(x, 0);
      for (int i = 1; i < world.size(); ++i) {
        const distributed::Work work = world.torch.distributed.irecv(x);
        while (!work.is_completed()) {
        }
      }
    });
  };
  for (const char* const backend : {"local", "ahbm"}) {
    CHECK(exhaustive({.ranks = 3, .backend = backend}, polls).text() == "all 2 schedules");
  }
}

TEST_CASE("a program without a choice has one schedule, on devices too") {
  const auto collectives = [](World& world) {
    world.run([&](int rank) {
      const Tensor x = world.torch.full({8}, rank);
      world.torch.distributed.all_reduce(x);
      world.torch.distributed.broadcast(x, 1);
      rank % 2 == 0 ? world.torch.distributed.send(x, rank + 1)
                    : (void)world.torch.distributed.recv(x, rank - 1);
    });
  };
  CHECK(exhaustive({}, collectives).text() == "all 1 schedule");
  CHECK(exhaustive({.backend = "ahbm"}, collectives).text() == "all 1 schedule");
}

TEST_CASE("a limit ends exhaustive early, and its text says so") {
  const ExploreReport report = exhaustive({.ranks = 4, .limit = 3}, [](World& world) {
    const distributed::HashStore store(world.torch);
    world.run([&](int) { store.add("all", 1); });
  });
  CHECK(report.runs == 3);
  CHECK_FALSE(report.is_complete);
  CHECK_THAT(report.text(), Catch::StartsWith("the first 3 schedules, not all"));
  CHECK_THROWS_AS(exhaustive({.limit = 0}, [](World&) {}), UsageError);
}

TEST_CASE("of 600 random programs exhaustive runs each outcome, of messages alone once") {
  for (const int writes : {0, 2, 3}) {
    std::mt19937 draws(5);
    std::size_t most = 0;
    for (int checked = 0; checked < 200;) {
      const MessageProgram program = draw_program(draws, writes);
      const Outcomes expected(program);
      if (expected.has_deadlock()) continue;
      ++checked;
      CAPTURE(to_text(program));
      std::multiset<Outcome> outcomes;
      CHECK(exhaust(program, outcomes).is_complete);
      CHECK((outcomes.size() == expected.all().size() || writes > 0));
      CHECK(std::set(outcomes.begin(), outcomes.end()) == expected.all());
      most = std::max(most, expected.all().size());
    }
    CHECK(most > 20);
  }
}

TEST_CASE("what two receives from any rank lead to may come in either order") {
  // Ranks 1 and 3 send to 0 and 2, which then write to one key.
  const auto writes = [](World& world) {
    const distributed::HashStore store(world.torch);
    world.run([&](int rank) {
      const Tensor x = world.torch.full({1}, rank);
      if (rank % 2 == 1) return world.torch.distributed.send(x, rank - 1);
      world.torch.distributed.recv(x);
      store.set("key", std::to_string(rank));
    });
  };
  CHECK(exhaustive({}, writes).text() == "all 2 schedules");
  // Rank 1 polls until its message to 0 is done, and then sends to 2, as rank 3 does.
  std::set<int> first;
  const auto polls = [&first](World& world) {
    world.run([&](int rank) {
      const Tensor x = world.torch.full({1}, rank);
      if (rank == 0) return (void)world.torch.distributed.recv(x);
      if (rank == 2) {
        first.insert(world.torch.distributed.recv(x));
        return (void)world.torch.distributed.recv(x);
      }
      if (rank == 1) {
        const distributed::Work work = world.torch.distributed.isend(x, 0);
        while (!work.is_completed()) {
        }
      }
      world.torch.distributed.send(x, 2);
    });
  };
  CHECK(exhaustive({}, polls).is_complete);
  CHECK(first == std::set{1, 3});
}

}  // namespace
}  // namespace kernbench::test::exhaustive_test
