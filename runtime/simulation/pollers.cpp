#include "runtime/simulation/pollers.h"

#include <string>
#include <utility>

#include "runtime/simulation/simulation.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

void Pollers::wait() {
  Completion may_look(simulation_);
  waiting_.push_back({&may_look, simulation_.now()});
  if (!is_scheduled_) schedule(Time{0});
  try {
    simulation_.wait(may_look, [] { return std::string("the next event"); });
  } catch (...) {
    std::erase_if(waiting_, [&](const Poller& poller) { return poller.may_look == &may_look; });
    throw;
  }
}

void Pollers::schedule(Time delay) {
  is_scheduled_ = true;
  sim::Engine& engine = simulation_.machine().engine();
  if (delay > Time{0}) return engine.schedule<&Pollers::wake>(delay, this, 0, sim::Cause::poll);
  engine.schedule_last(sim::Engine::call<&Pollers::wake>(this));
}

// Runs after all other events of this instant, so that a poller sees everything that happened in
// it.
void Pollers::wake() {
  const sim::Engine& engine = simulation_.machine().engine();
  const Time now = engine.now();
  is_scheduled_ = false;
  if (engine.is_at_standstill()) return look_at_standstill();
  if (!engine.is_idle() && engine.next_time() == now) return schedule(Time{0});
  const bool is_idle = engine.is_idle();
  std::vector<Poller> woken;
  std::erase_if(waiting_, [&](const Poller& poller) {
    const bool may_look = is_idle || poller.since < now;
    if (may_look) woken.push_back(poller);
    return may_look;
  });
  for (const Poller& poller : woken) poller.may_look->signal();
  if (!waiting_.empty()) schedule(engine.next_time() - now);
}

// All look, once for what happened before: then only what has waited for the standstill can go on.
void Pollers::look_at_standstill() {
  if (std::exchange(looked_, waiting_.size()) == waiting_.size()) return;
  for (const Poller& poller : std::exchange(waiting_, {})) poller.may_look->signal();
}

void Pollers::standstill_ends() {
  looked_ = 0;
  if (!waiting_.empty() && !is_scheduled_) schedule(Time{0});
}

// Nothing else happens during one turn of a fiber, so a second look in that turn would find the
// same: the next due event is run before it.  The same holds once a rank has looked at many things
// and waited for nothing else, since it may issue a new operation for each look.
void Looks::look(Simulation& simulation, FunctionRef<bool()> is_done, DescribeWait what) {
  constexpr int kFreeLooks = 1'000;
  constexpr int kMostStalls = 20'000;
  FiberLocal& local = simulation.local();
  FiberLocal::Polls& polls = local.polls;
  if (polls.at != simulation.now()) polls = {.at = simulation.now()};
  const bool has_looked = turn_ == simulation.fibers().turn() && at_ == simulation.now();
  if (++polls.looks > kFreeLooks || has_looked) {
    simulation.yield();
    polls.stalls = polls.at == simulation.now() ? polls.stalls + 1 : 0;
    polls.at = simulation.now();
  }
  at_ = simulation.now();
  turn_ = simulation.fibers().turn();
  if (is_done()) polls = {.at = at_};
  if (polls.stalls < kMostStalls) return;
  polls.stalls = 0;
  throw DeadlockError("KB-D002",
                      "no progress: rank {} asked {} times at t={} whether {} is completed, and "
                      "nothing completes it meanwhile; call wait()",
                      local.rank, kMostStalls, to_string(simulation.now()), what());
}

}  // namespace kernbench::runtime
