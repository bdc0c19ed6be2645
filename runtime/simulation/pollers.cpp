#include "runtime/simulation/pollers.h"

#include <algorithm>
#include <string>

#include "runtime/simulation/simulation.h"

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
  simulation_.machine().engine().schedule<&Pollers::wake>(delay, this, 0, sim::Cause::poll);
}

// Runs after all other events of this instant, so that a poller sees everything that happened in
// it.
void Pollers::wake() {
  const sim::Engine& engine = simulation_.machine().engine();
  const Time now = engine.now();
  is_scheduled_ = false;
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

}  // namespace kernbench::runtime
