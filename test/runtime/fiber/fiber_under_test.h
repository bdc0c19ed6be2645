// A scheduler with its engine, a log of what happened, and the usual ways to use them.

#pragma once

#include <string>
#include <vector>

#include "runtime/fiber/fiber_scheduler.h"

namespace kernbench::runtime {

struct FibersUnderTest {
  sim::Engine engine;
  std::vector<std::string> log;
  FiberScheduler scheduler;

  explicit FibersUnderTest(const FiberOptions& options = {}) : scheduler(engine, options) {}

  // Blocks the current fiber for `delay` of simulated time.
  void sleep(Time delay) {
    Fiber* fiber = scheduler.current();
    engine.schedule(
        delay,
        [](void* target, std::uint64_t waiter) {
          static_cast<FibersUnderTest*>(target)->scheduler.wake(*reinterpret_cast<Fiber*>(waiter));
        },
        this, reinterpret_cast<std::uint64_t>(fiber));
    scheduler.park([&] { return "sleep " + to_string(delay); });
  }

  // Blocks until somebody wakes or cancels the current fiber.
  void park() {
    scheduler.park([] { return std::string("a wake"); });
  }

  // Spawns a fiber whose end is logged as "NAME returned" and so on.
  Fiber& spawn(const std::string& name, std::function<void()> body) {
    return scheduler.spawn(
        name, std::move(body), nullptr, [this](Fiber& fiber, FiberResult result) {
          static constexpr const char* kHow[] = {"returned", "threw", "cancelled", "abandoned"};
          log.push_back(fiber.name() + " " + kHow[static_cast<int>(result.how)]);
        });
  }
};

// Logs the end of a scope.
struct LoggedScope {
  std::vector<std::string>& log;
  std::string name;

  ~LoggedScope() { log.push_back("~" + name); }
};

using LogLines = std::vector<std::string>;

}  // namespace kernbench::runtime
