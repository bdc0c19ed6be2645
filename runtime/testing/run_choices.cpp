#include "runtime/testing/run_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "runtime/fiber/fiber_local.h"
#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/simulation/simulation.h"
#include "runtime/testing/hash.h"
#include "runtime/testing/machine_parts.h"

namespace kernbench::testing {

using runtime::FiberLocal;

RunChoices::RunChoices(const Schedule& schedule, bool keeps_text) : keeps_text_(keeps_text) {
  for (const Choice& choice : schedule) {
    const bool is_made_later = choice.kind == ChoiceKind::tie || choice.kind == ChoiceKind::match ||
                               choice.kind == ChoiceKind::call;
    if (is_made_later) {
      given_[{choice.kind, choice.number}] = choice.value;
    } else {
      give(choice.kind, choice.number, choice.value);
    }
  }
}

RunChoices::RunChoices(const ExploreOptions& options, const RunSize& usual, std::uint64_t seed)
    : draws_(seed) {
  draw_kinds(options, usual);
}

// A run that varies everything hides what one kind alone would show, so each run varies some kinds
// (swarm testing).
void RunChoices::draw_kinds(const ExploreOptions& options, const RunSize& usual) {
  std::vector<Vary> kinds;
  for (const Vary kind :
       {Vary::ties, Vary::latencies, Vary::matches, Vary::depths, Vary::start_times}) {
    const bool has_queues = kind != Vary::depths || options.backend != "local";
    if (includes(options.vary, kind) && has_queues) kinds.push_back(kind);
  }
  const std::size_t at_least = draws_->below(kinds.size());
  const std::uint64_t longest = usual.picoseconds > 0
                                    ? static_cast<std::uint64_t>(usual.picoseconds)
                                    : 4 * static_cast<std::uint64_t>(options.ranks);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (i != at_least && draws_->one_in(2)) continue;
    switch (kinds[i]) {
      case Vary::ties:
        drawn_.ties = true;
        drawn_.by_priority = draws_->one_in(2);
        for (int change = 1; drawn_.by_priority && change < options.depth; ++change) {
          drawn_.change_at.push_back(draws_->below(usual.ties + 1));
        }
        if (draws_->one_in(2)) give(ChoiceKind::link_order, 0, 1 + draws_->below(1U << 30));
        break;
      case Vary::latencies:
        drawn_.delay_one_in = 1 + draws_->below(4);
        drawn_.longest_delay = std::max<std::uint64_t>(longest / 4, 4);
        draw_machine(options);
        break;
      case Vary::matches:
        drawn_.matches = true;
        give(ChoiceKind::aside, 0, 1);
        break;
      case Vary::depths:
        give(ChoiceKind::depth, 0, 1 + draws_->below(static_cast<std::uint64_t>(options.deepest)));
        break;
      case Vary::start_times: {
        const int ranks = options.topology ? options.topology->system.sip_count : options.ranks;
        for (int rank = 0; rank < ranks; ++rank) {
          if (draws_->one_in(2)) continue;
          give(ChoiceKind::start, static_cast<std::uint64_t>(rank), 1 + draws_->below(longest));
        }
        break;
      }
    }
  }
}

void RunChoices::draw_machine(const ExploreOptions& options) {
  for (std::uint64_t part = 0; part < kMachinePartCount; ++part) {
    const std::uint64_t most = static_cast<std::uint64_t>(options.slowest_percent) * 10;
    if (options.backend != "local" && draws_->one_in(2)) {
      give(ChoiceKind::machine, part, draws_->below(most + 1));
    }
  }
}

void RunChoices::give(ChoiceKind kind, std::uint64_t number, std::uint64_t value) {
  given_[{kind, number}] = value;
  take(kind, number, value);
}

void RunChoices::take(ChoiceKind kind, std::uint64_t number, std::uint64_t value) {
  if (value == 0) return;
  taken_.push_back({kind, number, value});
  if (keeps_text_) described_.push_back(describe(taken_.back()));
}

std::uint64_t RunChoices::find(ChoiceKind kind, std::uint64_t number) const {
  const auto found = given_.find({kind, number});
  return found == given_.end() ? 0 : found->second;
}

Topology RunChoices::varied(Topology topology) const {
  for (const auto& [choice, value] : given_) {
    if (choice.first == ChoiceKind::machine) slow_down(topology, choice.second, value);
  }
  return topology;
}

int RunChoices::depth() const {
  return static_cast<int>(find(ChoiceKind::depth, 0));
}

void RunChoices::begins(runtime::Simulation& simulation) {
  simulation_ = &simulation;
}

Time RunChoices::now() const {
  return simulation_->now();
}

std::optional<std::uint64_t> RunChoices::link_seed() const {
  const std::uint64_t seed = find(ChoiceKind::link_order, 0);
  return seed == 0 ? std::nullopt : std::optional(seed);
}

Time RunChoices::start_of(int rank) {
  return Time{static_cast<std::int64_t>(find(ChoiceKind::start, static_cast<std::uint64_t>(rank)))};
}

Time RunChoices::delay_of_call(int rank) {
  const std::uint64_t number = call_number(rank, calls_[rank]++);
  std::uint64_t delay = find(ChoiceKind::call, number);
  if (drawn_.delay_one_in > 0 && draws_->one_in(drawn_.delay_one_in)) {
    delay = 1 + draws_->below(drawn_.longest_delay);
  }
  take(ChoiceKind::call, number, delay);
  return Time{static_cast<std::int64_t>(delay)};
}

bool RunChoices::defers_matches() const {
  return find(ChoiceKind::aside, 0) != 0;
}

std::size_t RunChoices::choose_match(std::span<const int> senders) {
  if (senders.size() == 1) return 0;
  const std::uint64_t number = matches_++;
  const std::size_t chosen =
      drawn_.matches ? draws_->below(senders.size())
                     : std::min<std::size_t>(find(ChoiceKind::match, number), senders.size() - 1);
  if (chosen == 0) return 0;
  take(ChoiceKind::match, number, chosen);
  if (keeps_text_) {
    described_.back() = fmt::format(
        "match {} at t={}: a receive from any rank gets rank {}'s message, not rank {}'s", number,
        to_string(now()), senders[chosen], senders[0]);
  }
  return chosen;
}

std::size_t RunChoices::choose(std::span<const Due> due) {
  if (due.size() == 1) return 0;
  const std::uint64_t number = ties_++;
  std::size_t chosen = 0;
  if (drawn_.ties) {
    chosen = draw_tie(due);
  } else if (!given_.empty()) {
    chosen = std::min<std::size_t>(find(ChoiceKind::tie, number), due.size() - 1);
  }
  if (chosen == 0) return 0;
  take(ChoiceKind::tie, number, chosen);
  if (keeps_text_) describe_tie(due, chosen);
  return chosen;
}

std::size_t RunChoices::draw_tie(std::span<const Due> due) {
  if (!drawn_.by_priority) return draws_->below(due.size());
  const auto highest = [&] {
    std::size_t best = 0;
    std::uint64_t most = priority_of(due[0]);
    for (std::size_t i = 1; i < due.size(); ++i) {
      const std::uint64_t priority = priority_of(due[i]);
      if (priority > most) {
        most = priority;
        best = i;
      }
    }
    return best;
  };
  const std::size_t best = highest();
  if (std::ranges::find(drawn_.change_at, ties_ - 1) == drawn_.change_at.end()) return best;
  const runtime::Fiber* const fiber = runtime::FiberScheduler::fiber_of(*due[best].event);
  if (fiber == nullptr) return best;
  priority_of(due[best]) = draws_->below(16);  // lower than those that were drawn
  return highest();
}

// A rank's priority, and that of what it has issued; each event of the device has its own.
std::uint64_t& RunChoices::priority_of(const Due& due) {
  std::uint64_t actor = due.name | 1;
  if (const runtime::Fiber* const fiber = runtime::FiberScheduler::fiber_of(*due.event)) {
    const auto& local = *static_cast<const FiberLocal*>(fiber->local());
    actor = 8 * static_cast<std::uint64_t>(local.rank) + 2 * static_cast<std::uint64_t>(local.kind);
  }
  const auto [found, is_new] = priorities_.try_emplace(actor);
  if (is_new) found->second = 16 + draws_->next() / 2;
  return found->second;
}

namespace {

std::string name_of_event(const sim::Event& event) {
  const runtime::Fiber* const fiber = runtime::FiberScheduler::fiber_of(event);
  return fiber == nullptr ? "the device" : fiber->name();
}

}  // namespace

void RunChoices::describe_tie(std::span<const Due> due, std::size_t chosen) {
  std::string others;
  for (std::size_t i = 0; i < chosen; ++i) {
    const std::string name = name_of_event(*due[i].event);
    if (others.find(name) == others.npos) others += (others.empty() ? "" : ", ") + name;
  }
  described_.back() = fmt::format("tie {} at t={}: {} goes before {}", ties_ - 1, to_string(now()),
                                  name_of_event(*due[chosen].event), others);
}

Observation& RunChoices::add(int rank, std::string_view what, std::uint64_t number) {
  Observation& made = observed_.emplace_back();
  made.rank = rank;
  made.place = hash_of(hash_text(what), number);
  if (keeps_text_) made.what = what;
  return made;
}

void RunChoices::sees(std::uint64_t object, runtime::FunctionRef<std::string()> what) {
  if (keeps_text_) seen_.push_back({object, now(), what()});
}

// A run without values has none to compare.
void RunChoices::observes(int rank, std::string_view what, std::uint64_t number,
                          const sim::Value& value) {
  if (value.node() == nullptr) return;
  add(rank, what, number);
  pending_.push_back({observed_.size() - 1, value});
}

void RunChoices::observes(int rank, std::string_view what, std::span<const float> elements) {
  const std::uint64_t number = shown_[{rank, std::string(what)}]++;
  Observation& made = add(rank, what, number);
  if (keeps_text_) made.what += fmt::format(" #{}", number);
  for (const float element : elements) {
    const auto bits = std::bit_cast<std::uint32_t>(element);
    made.bits = hash_of(made.bits, bits);
    if (keeps_text_) made.elements.push_back(fmt::format("{} ({:#x})", element, bits));
  }
}

void RunChoices::end() {
  for (const auto& [at, value] : pending_) {
    Observation& made = observed_[at];
    const auto note = [&](const auto& elements) {
      for (const auto element : elements) {
        const auto bits =
            std::bit_cast<std::conditional_t<sizeof(element) == 4, std::uint32_t, std::uint64_t>>(
                element);
        made.bits = hash_of(made.bits, bits);
        if (keeps_text_) made.elements.push_back(fmt::format("{} ({:#x})", element, bits));
      }
    };
    if (is_integral(value.dtype())) {
      note(simulation_->read<std::int64_t>(value));
    } else {
      note(simulation_->read<float>(value));
    }
  }
  pending_.clear();
  size_ = {.ties = ties_, .picoseconds = now().count()};
}

}  // namespace kernbench::testing
