// The cost of a fiber switch, beside bare Boost.Context.
//
// Limit: at most twice the raw resume and yield (DESIGN.md 9).  Ours adds the exception globals and
// the bookkeeping of a parked fiber.  "through the engine" is what a rank sees: wake, event,
// switch.

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/fiber/fiber_scheduler.h"
#include "test/micro/micro.h"

namespace kernbench::runtime {

namespace {

namespace context = boost::context;

// `count` raw fibers that yield for ever, entered in turn.
class RawFibers {
 public:
  explicit RawFibers(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      fibers_.emplace_back(std::allocator_arg, context::protected_fixedsize_stack(256 * 1024),
                           [this](context::fiber&& main) {
                             while (!stop_) main = std::move(main).resume();
                             return std::move(main);
                           });
    }
  }
  ~RawFibers() {
    stop_ = true;
    for (context::fiber& fiber : fibers_) fiber = std::move(fiber).resume();
  }
  RawFibers(const RawFibers&) = delete;
  RawFibers& operator=(const RawFibers&) = delete;

  void turn() {
    fibers_[next_] = std::move(fibers_[next_]).resume();
    if (++next_ == fibers_.size()) next_ = 0;
  }

 private:
  std::vector<context::fiber> fibers_;
  std::size_t next_ = 0;
  bool stop_ = false;
};

// `count` fibers of a scheduler that park for ever.
class ParkedFibers {
 public:
  explicit ParkedFibers(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      fibers_.push_back(&scheduler_.spawn("fiber", [this] {
        while (true) scheduler_.park([] { return std::string("its turn"); });
      }));
    }
    engine_.run();
  }

  void turn_without_engine() {
    const sim::Event resume = FiberScheduler::resume_event(*fibers_[next_]);
    resume.function(resume.object, resume.argument);
    if (++next_ == fibers_.size()) next_ = 0;
  }
  void turn() {
    scheduler_.wake(*fibers_[next_]);
    engine_.step();
    if (++next_ == fibers_.size()) next_ = 0;
  }

 private:
  sim::Engine engine_;
  FiberScheduler scheduler_{engine_};
  std::vector<Fiber*> fibers_;
  std::size_t next_ = 0;
};

void raw_switch(benchmark::State& state) {
  RawFibers fibers(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) fibers.turn();
}

void our_switch(benchmark::State& state) {
  ParkedFibers fibers(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) fibers.turn_without_engine();
}

void our_switch_through_the_engine(benchmark::State& state) {
  ParkedFibers fibers(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) fibers.turn();
}

// A fiber that does nothing: stack from the pool, two switches, stack back.
void spawn_and_end(benchmark::State& state) {
  sim::Engine engine;
  FiberScheduler scheduler(engine);
  for (auto _ : state) {
    scheduler.spawn("fiber", [] {});
    engine.run();
  }
}

BENCHMARK(raw_switch)->Arg(1)->Arg(64)->Arg(1024)->Arg(10'000);
BENCHMARK(our_switch)->Arg(1)->Arg(64)->Arg(1024)->Arg(10'000);
BENCHMARK(our_switch_through_the_engine)->Arg(1)->Arg(64)->Arg(1024)->Arg(10'000);
BENCHMARK(spawn_and_end);

// Nanoseconds per turn: the best of several rounds, since other work only ever adds.
template <class Turn>
double best_ns(const Turn& turn) {
  constexpr int kTurns = 200'000;
  double best = 1e9;
  for (int round = 0; round < 15; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kTurns; ++i) turn();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / kTurns);
  }
  return best;
}

}  // namespace

}  // namespace kernbench::runtime

namespace kernbench::micro {

void print_fiber_switch_table() {
  std::printf("%8s %12s %12s %8s %14s %8s\n", "fibers", "raw(ns)", "ours(ns)", "ratio",
              "by engine(ns)", "ratio");
  for (const std::size_t count : {1u, 64u, 1024u, 10'000u}) {
    runtime::RawFibers raw(count);
    runtime::ParkedFibers ours(count);
    const double raw_ns = runtime::best_ns([&] { raw.turn(); });
    const double our_ns = runtime::best_ns([&] { ours.turn_without_engine(); });
    const double engine_ns = runtime::best_ns([&] { ours.turn(); });
    std::printf("%8zu %12.1f %12.1f %8.2f %14.1f %8.2f\n", count, raw_ns, our_ns, our_ns / raw_ns,
                engine_ns, engine_ns / raw_ns);
  }
  std::printf("a turn is two switches; ours must stay within twice the raw one\n");
}

}  // namespace kernbench::micro
