// Every schedule that can differ in what ranks see, by dynamic partial-order reduction (Flanagan
// and Godefroid 2005) with sleep sets (Godefroid 1996).
//
// A run is a path through a tree: at each state, an event is taken from those that are due.  When
// a run has ended, two of its events race if they touch the same object in a way whose order
// matters, and nothing else orders them.  Then another run is needed in which the later one, or
// what it comes of, goes first.  What has been taken at a state sleeps in the runs that take
// something else there, until an event is taken that its order with matters: without that, the runs
// would differ in order alone.
//
// A receive from any rank gets its message when nothing else can go on (Vakkalanka et al., "Dynamic
// verification of MPI programs with reductions in presence of split operations and relaxed
// orderings", CAV 2008): one event, which is taken once with each sender that there is.  Each of
// these sleeps by itself, since a further sender does not change what the message of another one
// leads to.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/fiber/fiber_local.h"
#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/testing/explored_runs.h"
#include "runtime/testing/run_choices.h"

namespace kernbench::testing {

namespace {

using Touch = runtime::ScheduleChoices::Touch;

struct Access {
  std::uint64_t object = 0;
  Touch how = Touch::reads;
};
using Footprint = std::vector<Access>;

// True if the two do not commute.  Whether a message is there before a receive chooses another one
// changes nothing.
bool do_conflict(const Access& a, const Access& b) {
  const bool both_give = a.how == Touch::gives && b.how == Touch::gives;
  const bool both_read = a.how == Touch::reads && b.how == Touch::reads;
  const bool is_offer = (a.how == Touch::gives && b.how == Touch::takes) ||
                        (a.how == Touch::takes && b.how == Touch::gives);
  return a.object == b.object && !both_give && !both_read && !is_offer;
}
bool do_conflict(const Footprint& some, const Footprint& others) {
  return std::ranges::any_of(some, [&](const Access& a) {
    return std::ranges::any_of(others, [&](const Access& b) { return do_conflict(a, b); });
  });
}

// True if the earlier one would have had one more sender to choose from after the later one.
bool misses_an_offer(const Footprint& earlier, const Footprint& later) {
  return std::ranges::any_of(earlier, [&](const Access& a) {
    return a.how == Touch::takes && std::ranges::any_of(later, [&](const Access& b) {
             return a.object == b.object && b.how == Touch::gives;
           });
  });
}

// True if the event has waited for a standstill.
bool is_settling(const Footprint& touched) {
  return std::ranges::find(touched, Touch::takes, &Access::how) != touched.end();
}

// What is taken at a state: an event by its name, with one of the senders that it chooses from, or
// whatever it chooses.
struct Step {
  static constexpr int kAnySender = -1;
  std::uint64_t event = 0;
  int sender = kAnySender;
  auto operator<=>(const Step&) const = default;
};
using Sleeping = std::map<Step, Footprint>;

// A state of the present run, and the event that was taken there.
struct State {
  std::vector<std::uint64_t> due = {};  // names
  Sleeping sleeping = {};               // before anything is taken
  Sleeping done = {};                   // taken in earlier runs
  std::vector<std::uint64_t> to_take = {};
  std::uint64_t taken = 0;
  std::size_t pushed_by = 0;      // the number of the state, from 1, whose event has pushed it
  std::uint64_t actor = 0;        // its fiber; 0: none
  Footprint touched = {};         // by the event
  std::vector<int> senders = {};  // that the event chooses from; empty: it chooses none
  std::size_t chosen = 0;         // of them
  // All senders sleep, so that another event is to be taken.
  bool has_nothing_new = false;

  // Moves on to the next sender that does not sleep, if there is one.
  void skip_sleeping() {
    while (chosen < senders.size() && sleeping.contains({taken, senders[chosen]})) ++chosen;
  }
  // The first event that is due, does not sleep and has not been taken yet; null: none.
  const std::uint64_t* find_awake() const {
    const auto awake = std::ranges::find_if(due, [&](std::uint64_t name) {
      return !sleeping.contains({name}) && !done.contains({name});
    });
    return awake == due.end() ? nullptr : &*awake;
  }
};

// The tree as far as the present run, which takes what it says and then goes on by itself.
class Tree {
 public:
  // Returns false if every schedule has been run.
  bool next();
  void begin_run() {
    depth_ = 0;
    ++runs_;
  }
  void end_run();

  std::size_t choose(std::span<const sim::TieChooser::Due> due);
  std::size_t choose_match(std::span<const int> senders);
  void touches(std::uint64_t object, Touch how);

 private:
  State make_state(std::span<const sim::TieChooser::Due> due) const;
  static bool next_at(State& state);
  bool need_first_at(std::size_t earlier, std::size_t later);
  void need_first(std::size_t earlier, std::size_t later);
  void find_races();

  std::vector<State> states_;
  std::size_t depth_ = 0;  // of the present run
  // An event reads or writes.  Then what waits for a standstill does not sleep: after others of its
  // kind it may lead to more, which comes in any order with what it led to before.
  bool has_keys_ = false;
  bool knew_keys_ = false;  // before the present run
  int runs_ = 0;
};

std::uint64_t actor_of(const sim::Event& event) {
  const runtime::Fiber* const fiber = runtime::FiberScheduler::fiber_of(event);
  if (fiber == nullptr) return 0;
  const auto& local = *static_cast<const runtime::FiberLocal*>(fiber->local());
  if (local.kind != runtime::FiberLocal::Kind::rank) return 0;
  return static_cast<std::uint64_t>(local.rank) + 1;
}

State Tree::make_state(std::span<const sim::TieChooser::Due> due) const {
  State state;
  for (const auto& event : due) state.due.push_back(event.name);
  if (depth_ == 0) return state;
  const State& before = states_[depth_ - 1];
  for (const Sleeping* const asleep : {&before.sleeping, &before.done}) {
    for (const auto& [step, touched] : *asleep) {
      const bool wakes =
          step.event == before.taken || do_conflict(touched, before.touched) ||
          (has_keys_ && is_settling(touched)) ||
          (step.sender == Step::kAnySender && misses_an_offer(touched, before.touched));
      if (!wakes) state.sleeping[step] = touched;
    }
  }
  return state;
}

std::size_t Tree::choose(std::span<const sim::TieChooser::Due> due) {
  if (depth_ == states_.size()) {
    State state = make_state(due);
    const std::uint64_t* const awake = state.find_awake();
    if (awake == nullptr) throw Redundant();
    state.taken = *awake;
    states_.push_back(std::move(state));
  }
  State& state = states_[depth_++];
  const auto at = std::ranges::find(state.due, state.taken) - state.due.begin();
  const sim::TieChooser::Due& event = due[static_cast<std::size_t>(at)];
  state.pushed_by = event.pushed_by;
  state.actor = actor_of(*event.event);
  state.touched.clear();
  return static_cast<std::size_t>(at);
}

std::size_t Tree::choose_match(std::span<const int> senders) {
  State& state = states_[depth_ - 1];
  if (state.senders.empty()) {
    state.senders.assign(senders.begin(), senders.end());
    state.skip_sleeping();
    state.has_nothing_new = state.chosen == senders.size();
    if (state.has_nothing_new) throw Redundant();
  }
  return state.chosen;
}

void Tree::touches(std::uint64_t object, Touch how) {
  has_keys_ = has_keys_ || how == Touch::reads || how == Touch::writes;
  if (depth_ > 0) states_[depth_ - 1].touched.push_back({object, how});
}

// Lets the event of `later`, or what it comes of, go before that of `earlier` in another run.
// Returns false if that was not due there.
bool Tree::need_first_at(std::size_t earlier, std::size_t later) {
  std::size_t ancestor = later;
  while (states_[ancestor].pushed_by > earlier) ancestor = states_[ancestor].pushed_by - 1;
  const std::uint64_t name = states_[ancestor].taken;
  State& state = states_[earlier];
  if (std::ranges::find(state.due, name) == state.due.end()) return false;
  if (name != state.taken && !state.sleeping.contains({name}) && !state.done.contains({name}) &&
      std::ranges::find(state.to_take, name) == state.to_take.end()) {
    state.to_take.push_back(name);
  }
  return true;
}

// What waits for a standstill was not due at a state before it: it can only go before the event
// that was taken at the standstill before that state.
void Tree::need_first(std::size_t earlier, std::size_t later) {
  if (need_first_at(earlier, later)) return;
  while (earlier > 0 && states_[earlier].senders.empty()) --earlier;
  if (!states_[earlier].senders.empty()) need_first_at(earlier, later);
}

void Tree::find_races() {
  // For each state those before it whose events happen before its own, whatever the order.
  std::vector<std::vector<bool>> before(states_.size());
  std::map<std::uint64_t, std::size_t> last_of;
  const auto follows = [&](std::size_t later, std::size_t earlier) {
    for (std::size_t i = 0; i < earlier; ++i) {
      if (before[earlier][i]) before[later][i] = true;
    }
    before[later][earlier] = true;
  };
  for (std::size_t later = 0; later < states_.size(); ++later) {
    const State& state = states_[later];
    before[later].resize(later);
    if (state.pushed_by > 0) follows(later, state.pushed_by - 1);
    if (state.actor != 0) {
      if (const auto last = last_of.find(state.actor); last != last_of.end()) {
        follows(later, last->second);
      }
      last_of[state.actor] = later;
    }
    for (std::size_t earlier = later; !state.touched.empty() && earlier-- > 0;) {
      if (before[later][earlier]) continue;
      const Footprint& touched = states_[earlier].touched;
      const bool conflict = do_conflict(touched, state.touched);
      if (conflict || misses_an_offer(touched, state.touched)) need_first(earlier, later);
      if (conflict) follows(later, earlier);
    }
  }
}

void Tree::end_run() {
  states_.resize(depth_);
  find_races();
}

// Makes the state take what it has not taken yet.  Returns false if it has taken all that is
// needed.
bool Tree::next_at(State& state) {
  if (state.chosen < state.senders.size()) {
    state.done[{state.taken, state.senders[state.chosen++]}] = state.touched;
    state.skip_sleeping();
    if (state.chosen < state.senders.size()) return true;
  }
  state.done[{state.taken}] = state.touched;
  state.senders.clear();
  state.chosen = 0;
  if (std::exchange(state.has_nothing_new, false) && state.to_take.empty()) {
    if (const std::uint64_t* const awake = state.find_awake()) state.to_take.push_back(*awake);
  }
  if (state.to_take.empty()) return false;
  state.taken = state.to_take.back();
  state.to_take.pop_back();
  return true;
}

bool Tree::next() {
  if (!std::exchange(knew_keys_, has_keys_) && has_keys_ && runs_ > 1) {
    states_.clear();  // what slept might lead to more, so that all begins anew
    return true;
  }
  while (!states_.empty() && !next_at(states_.back())) states_.pop_back();
  return !states_.empty();
}

// A run's choices, which the tree makes.
class TreeChoices final : public RunChoices {
 public:
  explicit TreeChoices(Tree& tree) : RunChoices({{ChoiceKind::aside, 0, 1}}, false), tree_(tree) {
    tree_.begin_run();
  }

  std::size_t choose(std::span<const Due> due) override {
    const std::size_t chosen = tree_.choose(due);
    if (due.size() > 1) take(ChoiceKind::tie, ties_++, chosen);
    return chosen;
  }
  std::size_t choose_match(std::span<const int> senders) override {
    const std::size_t chosen = tree_.choose_match(senders);
    if (senders.size() > 1) take(ChoiceKind::match, matches_++, chosen);
    return chosen;
  }
  void touches(std::uint64_t object, Touch how) override { tree_.touches(object, how); }

 private:
  Tree& tree_;
};

}  // namespace

ExploreReport exhaust_program(const ExhaustiveOptions& options, const Program& program,
                              const ExploredTest& test) {
  check_positive("ExhaustiveOptions::limit", options.limit);
  ExploredRuns runs({.ranks = options.ranks,
                     .backend = options.backend,
                     .topology = options.topology,
                     .options = options.options},
                    program, test);
  runs.report.call = kExhaustive;
  runs.run_usual();
  if (runs.replay()) return runs.report;
  runs.report.runs = 0;
  constexpr std::int64_t kMostRedundant = 16;  // for each that is not
  ExploreReport& report = runs.report;
  Tree tree;
  bool has_more = true;
  while (has_more && report.runs < options.limit &&
         report.redundant < kMostRedundant * options.limit) {
    const Outcome outcome = runs.run(std::make_shared<TreeChoices>(tree));
    if (outcome.is_redundant) {
      ++report.redundant;
    } else {
      runs.check(outcome);
    }
    tree.end_run();
    has_more = tree.next();
  }
  report.is_complete = !has_more;
  runs.check_sometimes();
  return report;
}

}  // namespace kernbench::testing
