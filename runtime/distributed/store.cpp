#include "runtime/distributed/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "runtime/distributed/misuse.h"
#include "runtime/fiber/fiber_scheduler.h"
#include "runtime/simulation/attachments.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::distributed {

struct Store::State {
  std::map<std::string, std::string> values;
  runtime::Event changed;  // a key has been set
  std::uint64_t number;    // which no schedule changes
};

struct Store::Stores : runtime::Attachment {
  std::map<std::string, std::shared_ptr<State>> by_name;  // those that ranks share
  std::map<int, std::uint64_t> made;                      // the others, by the rank that made them
  void forget_ranks() override { by_name.clear(); }
};

Store::Store(std::shared_ptr<runtime::Simulation> simulation) : simulation_(std::move(simulation)) {
  constexpr std::uint64_t kStores = 5;
  const int rank = simulation_->local().rank;
  const std::uint64_t number = simulation_->attachments().get<Stores>().made[rank]++;
  state_ = std::make_shared<State>();
  state_->number = runtime::shared_object(kStores, static_cast<std::uint64_t>(rank), number);
}

Store::Store(std::shared_ptr<runtime::Simulation> simulation, const std::string& name)
    : simulation_(std::move(simulation)) {
  std::shared_ptr<State>& state = simulation_->attachments().get<Stores>().by_name[name];
  if (state == nullptr) {
    state = std::make_shared<State>();
    state->number = std::hash<std::string>()(name);
  }
  state_ = state;
}

Store::Store(const Store& of, std::string prefix)
    : simulation_(of.simulation_), state_(of.state_), prefix_(of.prefix_ + std::move(prefix)) {
  checked();
}

namespace {

// Lets other ranks go first, so that each thing that a rank does to a store has its own place in an
// order.
void let_others_go_first(runtime::Simulation& simulation) {
  if (simulation.fibers().current() == nullptr) return;
  const auto own_turn = std::make_shared<runtime::Completion>(simulation);
  simulation.keep(own_turn);  // the event refers to it even when the caller is unwound
  simulation.machine().engine().schedule<&runtime::Completion::signal>(Time{0}, own_turn.get());
  simulation.wait(*own_turn, [] { return std::string("its turn at a Store"); });
  simulation.release(own_turn.get());
}

}  // namespace

// Other orders of what ranks do to one key may give other values.
void Store::touch(std::string_view key, bool writes) const {
  constexpr std::uint64_t kKeys = 2;
  runtime::ScheduleChoices* const choices = simulation_->choices();
  if (choices == nullptr) return;
  if (choices->defers_matches()) let_others_go_first(*simulation_);
  const std::uint64_t object =
      runtime::shared_object(kKeys, std::hash<std::string>()(full(key)), state_->number);
  choices->touches(object, writes ? runtime::ScheduleChoices::Touch::writes
                                  : runtime::ScheduleChoices::Touch::reads);
  choices->sees(object, [&] {
    return fmt::format("rank {} {} the key '{}' of a Store", simulation_->local().rank,
                       writes ? "changes" : "reads", full(key));
  });
}

Store::State& Store::checked() const {
  if (state_ == nullptr) misuse("the Store is None: make one, as HashStore(torch)");
  const runtime::FiberLocal& caller = simulation_->local();
  if (caller.kind == runtime::FiberLocal::Kind::kernel) {
    throw CollectiveError("KB-R012", "a Store is used inside kernel '{}'", caller.kernel);
  }
  return *state_;
}

void Store::set(std::string_view key, std::string value) const {
  State& state = checked();
  touch(key, true);
  state.values[full(key)] = std::move(value);
  state.changed.notify_all();
}

std::string Store::get(std::string_view key) const {
  wait({std::string(key)});
  return checked().values.at(full(key));
}

void Store::wait(const std::vector<std::string>& keys,
                 std::optional<std::chrono::milliseconds>) const {
  State& state = checked();
  for (const std::string& key : keys) touch(key, false);
  // A key that was set may be deleted again while the others are waited for.
  for (;;) {
    const auto missing = std::ranges::find_if(
        keys, [&](const std::string& key) { return !state.values.contains(full(key)); });
    if (missing == keys.end()) return;
    const std::shared_ptr<State> kept = state_;  // the handle may end while the caller waits
    kept->changed.wait(*simulation_, [&] {
      return fmt::format("the key '{}' of a Store, which is not set", full(*missing));
    });
  }
}

std::int64_t Store::add(std::string_view key, std::int64_t amount) const {
  State& state = checked();
  touch(key, true);
  std::string& value = state.values[full(key)];
  std::int64_t sum = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), sum);
  const bool is_number = value.empty() || (error == std::errc() && *end == 0);
  if (!is_number || __builtin_add_overflow(sum, amount, &sum)) {
    wrong_argument(
        fmt::format("Store.add: {} to the value '{}' of key '{}' is no whole number of "
                    "64 bits",
                    amount, value, key));
  }
  value = std::to_string(sum);
  state.changed.notify_all();
  return sum;
}

std::string Store::compare_set(std::string_view key, const std::string& expected,
                               const std::string& desired) const {
  State& state = checked();
  touch(key, true);
  const auto found = state.values.find(full(key));
  if (found == state.values.end() && !expected.empty()) return expected;
  if (found != state.values.end() && found->second != expected) return found->second;
  state.values[full(key)] = desired;
  state.changed.notify_all();
  return desired;
}

bool Store::delete_key(std::string_view key) const {
  State& state = checked();
  touch(key, true);
  return state.values.erase(full(key)) > 0;
}

std::int64_t Store::num_keys() const {
  return static_cast<std::int64_t>(checked().values.size());
}

}  // namespace kernbench::distributed
