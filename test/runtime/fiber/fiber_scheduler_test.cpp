#include "runtime/fiber/fiber_scheduler.h"

#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "test/runtime/fiber/fiber_under_test.h"

namespace kernbench::runtime::fiber_scheduler_test {

namespace {

// Not the address of a local: AddressSanitizer may keep those elsewhere.
[[gnu::noinline]] std::intptr_t stack_position() {
  return reinterpret_cast<std::intptr_t>(__builtin_frame_address(0));
}

bool is_on_stack_of(std::intptr_t position) {
  return std::abs(stack_position() - position) < 128 * 1024;
}

}  // namespace

TEST_CASE("fibers run in the order of events, not of creation", "[fiber]") {
  FibersUnderTest dut;
  const auto sleeper = [&](const char* name, Time first, Time second) {
    dut.spawn(name, [&dut, name, first, second] {
      dut.sleep(first);
      dut.log.push_back(std::string(name) + " at " + to_string(dut.engine.now()));
      dut.sleep(second);
    });
  };
  sleeper("a", Time{30'000}, Time{10'000});
  sleeper("b", Time{10'000}, Time{40'000});
  sleeper("c", Time{30'000}, Time{5'000});
  CHECK(dut.log.empty());  // nothing runs before the engine does
  dut.engine.run();
  CHECK(dut.log == LogLines{"b at 10 ns", "a at 30 ns", "c at 30 ns", "c returned", "a returned",
                            "b returned"});
  CHECK(dut.scheduler.live_count() == 0);
}

TEST_CASE("two runs of the same fibers have the same fingerprint", "[fiber][determinism]") {
  const auto fingerprint = [] {
    FibersUnderTest dut;
    for (int i = 0; i < 20; ++i) {
      dut.spawn("f", [&dut, i] {
        for (int step = 0; step < 10; ++step) dut.sleep(Time{(i * 7 + step * 3) % 11});
      });
    }
    dut.engine.run();
    return dut.engine.fingerprint();
  };
  CHECK(fingerprint() == fingerprint());
}

TEST_CASE("fibers that block in a handler rethrow their own exceptions", "[fiber][exceptions]") {
  FibersUnderTest dut;
  const auto worker = [&](int rank) {
    dut.spawn("rank " + std::to_string(rank), [&dut, rank] {
      try {
        throw std::runtime_error("failure of " + std::to_string(rank));
      } catch (...) {
        try {
          dut.sleep(Time{10 - rank});
          throw;
        } catch (const std::runtime_error& error) {
          dut.log.emplace_back(error.what());
        }
      }
      dut.log.emplace_back(std::current_exception() ? "leaked" : "clean");
    });
  };
  worker(0);
  worker(1);
  dut.engine.schedule(
      Time{5},
      [](void* log, std::uint64_t) {
        static_cast<LogLines*>(log)->emplace_back(std::current_exception() ? "leaked"
                                                                           : "clean main");
      },
      &dut.log);
  dut.engine.run();
  CHECK(dut.log == LogLines{"clean main", "failure of 1", "clean", "rank 1 returned",
                            "failure of 0", "clean", "rank 0 returned"});
}

TEST_CASE("an exception reaches on_end with its own type, after the stack went back",
          "[fiber][exceptions]") {
  struct OwnType {
    int value;
  };
  FibersUnderTest dut;
  int seen = 0;
  std::size_t live_stacks = 99;
  int local = 7;
  const auto on_end = [&](Fiber& fiber, FiberResult result) {
    live_stacks = dut.scheduler.stacks().live_count();
    CHECK(dut.scheduler.current() == nullptr);
    CHECK(fiber.local() == &local);
    REQUIRE(result.how == FiberResult::How::threw);
    try {
      std::rethrow_exception(result.exception);
    } catch (const OwnType& exception) {
      seen = exception.value;
    }
  };
  const auto body = [&] {
    dut.sleep(Time{1});
    throw OwnType{42};
  };
  dut.scheduler.spawn("thrower", body, &local, on_end);
  dut.engine.run();
  CHECK(seen == 42);
  CHECK(live_stacks == 0);
}

TEST_CASE("what on_end throws leaves the engine's run, and the scheduler goes on", "[fiber]") {
  FibersUnderTest dut;
  dut.spawn("sleeper", [&] { dut.sleep(Time{5}); });
  dut.scheduler.spawn(
      "thrower", [] {}, nullptr,
      [](Fiber&, const FiberResult&) { throw std::runtime_error("from on_end"); });
  CHECK_THROWS_WITH(dut.engine.run(), "from on_end");
  dut.engine.run();
  CHECK(dut.log == LogLines{"sleeper returned"});
}

TEST_CASE("call_on_main runs on the main stack, at once, and carries exceptions", "[fiber]") {
  FibersUnderTest dut;
  const std::intptr_t on_main = stack_position();
  dut.spawn("f", [&] {
    CHECK_FALSE(is_on_stack_of(on_main));
    dut.scheduler.call_on_main([&] {
      CHECK(is_on_stack_of(on_main));
      CHECK(dut.scheduler.current() == nullptr);
      dut.scheduler.call_on_main([&] { dut.log.emplace_back("nested"); });
    });
    CHECK(dut.scheduler.current() != nullptr);
    try {
      dut.scheduler.call_on_main([] { throw std::runtime_error("from main"); });
    } catch (const std::runtime_error& error) {
      dut.log.emplace_back(error.what());
    }
    dut.sleep(Time{1});
    dut.scheduler.call_on_main([&] { dut.log.push_back(to_string(dut.engine.now())); });
  });
  dut.engine.run();
  CHECK(dut.log == LogLines{"nested", "from main", "0.001 ns", "f returned"});
}

TEST_CASE("any number of wakes before the resumption are one", "[fiber][wake]") {
  FibersUnderTest dut;
  Fiber& fiber = dut.spawn("f", [&] {
    dut.park();
    dut.log.emplace_back("woken once");
    dut.park();
    dut.log.emplace_back("woken twice");
  });
  dut.engine.run();
  CHECK(fiber.state() == Fiber::State::waiting);
  dut.scheduler.wake(fiber);
  dut.scheduler.wake(fiber);
  CHECK(fiber.state() == Fiber::State::ready);
  dut.engine.run();
  CHECK(dut.log == LogLines{"woken once"});
  dut.scheduler.wake(fiber);
  dut.engine.run();
  CHECK(dut.log == LogLines{"woken once", "woken twice", "f returned"});
}

TEST_CASE("a wake before the park is kept: the park gives the engine one turn", "[fiber][wake]") {
  FibersUnderTest dut;
  Fiber& early = dut.spawn("early", [&] {
    dut.park();  // woken before it started
    dut.log.emplace_back("early runs");
    dut.scheduler.wake(*dut.scheduler.current());
    dut.park();
    dut.log.emplace_back("early again");
  });
  dut.scheduler.wake(early);
  dut.spawn("other", [&] { dut.log.emplace_back("other runs"); });
  dut.engine.run();
  CHECK(dut.log ==
        LogLines{"other runs", "other returned", "early runs", "early again", "early returned"});
}

TEST_CASE("parked fibers are listed in order of creation with what they wait for", "[fiber]") {
  FibersUnderTest dut;
  for (int rank : {0, 1, 2}) {
    dut.spawn("rank " + std::to_string(rank), [&dut, rank] {
      if (rank == 1) dut.sleep(Time{2'000});
      if (rank == 2) return;
      const int peer = 1 - rank;
      dut.scheduler.park([&] { return fmt::format("recv {} -> {}", peer, rank); });
    });
  }
  CHECK(dut.scheduler.live().at(2)->state() == Fiber::State::starting);
  dut.engine.run();
  LogLines report;
  for (const Fiber* fiber : dut.scheduler.live()) {
    report.push_back(fmt::format("{} waits for {} since {}", fiber->name(), fiber->waits_for(),
                                 to_string(fiber->waits_since())));
  }
  CHECK(report == LogLines{"rank 0 waits for recv 1 -> 0 since 0 ns",
                           "rank 1 waits for recv 0 -> 1 since 2 ns"});
}

TEST_CASE("a name may be made when it is asked for", "[fiber]") {
  FibersUnderTest dut;
  int pe = 5;
  const auto writer = [](const void* local, std::span<char> buffer) noexcept {
    return fmt::format_to_n(buffer.data(), buffer.size(), "kernel 'ring' on pe {}",
                            *static_cast<const int*>(local))
        .size;
  };
  Fiber& fiber = dut.scheduler.spawn(
      NameWriter(writer), [] {}, &pe);
  CHECK(fiber.name() == "kernel 'ring' on pe 5");
  std::array<char, 6> small;
  CHECK(std::string(small.data(), fiber.write_name(small)) == "kernel");
}

TEST_CASE("one stack serves fibers that run one after another", "[fiber][stacks]") {
  FibersUnderTest dut;
  for (int i = 0; i < 100; ++i) dut.spawn("f", [&] { dut.log.emplace_back("ran"); });
  dut.engine.run();
  CHECK(dut.log.size() == 200);
  CHECK(dut.scheduler.stacks().made_count() == 1);
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 10; ++i) dut.spawn("g", [&] { dut.sleep(Time{1}); });
    dut.engine.run();
    CHECK(dut.scheduler.stacks().made_count() == 10);
  }
}

TEST_CASE("10,000 fibers park and end", "[fiber][scale]") {
  FibersUnderTest dut;
  int ended = 0;
  for (int i = 0; i < 10'000; ++i) {
    dut.scheduler.spawn(
        "f",
        [&dut, i] {
          dut.sleep(Time{i % 100});
          dut.sleep(Time{1});
        },
        nullptr, [&](Fiber&, const FiberResult&) { ++ended; });
  }
  dut.engine.run();
  CHECK(ended == 10'000);
  CHECK(dut.scheduler.stacks().live_count() == 0);
}

TEST_CASE("a fiber may use 200 KiB of its stack, again and again", "[fiber][stacks]") {
  FibersUnderTest dut;
  for (int round = 0; round < 3; ++round) {
    dut.spawn("deep", [&] {
      volatile char block[200 * 1024];
      for (std::size_t i = 0; i < sizeof block; i += 512) block[i] = static_cast<char>(i / 512);
      dut.sleep(Time{1});
      CHECK(block[512 * 77] == 77);
    });
    dut.engine.run();
  }
  CHECK(dut.log == LogLines{"deep returned", "deep returned", "deep returned"});
}

TEST_CASE("out of stacks, the engine's run throws and what runs can still be unwound",
          "[fiber][limits]") {
  FibersUnderTest dut(FiberOptions{.stack_limit = 2});
  for (const char* name : {"a", "b", "c"}) dut.spawn(name, [&] { dut.park(); });
  CHECK_THROWS_AS(dut.engine.run(), LimitError);
  dut.scheduler.cancel_all();
  CHECK(dut.log == LogLines{"c cancelled", "b cancelled", "a cancelled"});
}

TEST_CASE("misuse of the scheduler is an internal error", "[fiber]") {
  FibersUnderTest dut;
  CHECK_THROWS_AS(dut.park(), InternalError);
  Fiber& fiber = dut.spawn("f", [] {});
  dut.engine.run();
  CHECK_THROWS_AS(dut.scheduler.wake(fiber), InternalError);
}

}  // namespace kernbench::runtime::fiber_scheduler_test
