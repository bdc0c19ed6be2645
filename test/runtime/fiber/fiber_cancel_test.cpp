#include <catch2/catch.hpp>
#include <optional>
#include <stdexcept>

#include "test/runtime/fiber/fiber_under_test.h"

namespace kernbench::runtime::fiber_cancel_test {

TEST_CASE("cancellation runs destructors exactly once, innermost first, of the youngest first",
          "[fiber][cancel]") {
  FibersUnderTest dut;
  for (const std::string name : {"a", "b"}) {
    dut.spawn(name, [&dut, name] {
      const LoggedScope outer{dut.log, name + " outer"};
      const LoggedScope inner{dut.log, name + " inner"};
      dut.park();
      dut.log.emplace_back("never reached");
    });
  }
  dut.engine.run();
  dut.scheduler.cancel_all();
  CHECK(dut.log ==
        LogLines{"~b inner", "~b outer", "b cancelled", "~a inner", "~a outer", "a cancelled"});
  CHECK(dut.scheduler.live_count() == 0);
  CHECK(dut.scheduler.stacks().live_count() == 0);
}

TEST_CASE("the scheduler's end unwinds what is alive", "[fiber][cancel]") {
  LogLines log;
  {
    std::optional<FibersUnderTest> dut(std::in_place);
    dut->scheduler.spawn("f", [&] {
      const LoggedScope scope{log, "scope"};
      dut->park();
    });
    dut->scheduler.spawn("g", [&] { log.emplace_back("g runs and returns"); });
    dut->engine.run();
    dut->scheduler.spawn("h", [&] { log.emplace_back("never started"); });
  }
  CHECK(log == LogLines{"g runs and returns", "~scope"});
}

TEST_CASE("it does so too while an exception propagates on the main stack", "[fiber][cancel]") {
  LogLines log;
  try {
    FibersUnderTest dut;
    dut.scheduler.spawn("f", [&] {
      const LoggedScope scope{log, "scope"};
      dut.park();
    });
    dut.engine.run();
    throw std::runtime_error("main failed");
  } catch (const std::runtime_error& error) {
    log.emplace_back(error.what());
  }
  CHECK(log == LogLines{"~scope", "main failed"});
}

TEST_CASE("a fiber that never started just finishes, and its pending start does nothing",
          "[fiber][cancel]") {
  FibersUnderTest dut;
  Fiber& first = dut.spawn("first", [&] { dut.log.emplace_back("never"); });
  dut.scheduler.cancel(first);
  CHECK(dut.scheduler.stacks().made_count() == 0);
  Fiber& second = dut.spawn("second", [&] { dut.log.emplace_back("second runs"); });
  CHECK(&second == &first);  // the object is used again
  dut.engine.run();
  CHECK(dut.log == LogLines{"first cancelled", "second runs", "second returned"});
}

TEST_CASE("a woken fiber that is cancelled is not resumed by its pending event",
          "[fiber][cancel]") {
  FibersUnderTest dut;
  Fiber& first = dut.spawn("first", [&] { dut.park(); });
  dut.engine.run();
  dut.scheduler.wake(first);
  dut.scheduler.cancel(first);
  dut.spawn("second", [&] {
    dut.park();
    dut.log.emplace_back("never");
  });
  dut.engine.run();
  dut.scheduler.cancel_all();
  CHECK(dut.log == LogLines{"first cancelled", "second cancelled"});
}

TEST_CASE("a fiber that swallows three cancellations is abandoned", "[fiber][cancel]") {
  FibersUnderTest dut;
  int swallowed = 0;
  Fiber& stubborn = dut.spawn("stubborn", [&] {
    while (true) {
      try {
        dut.park();
      } catch (...) {
        ++swallowed;
      }
    }
  });
  dut.spawn("other", [&] { dut.park(); });
  dut.engine.run();
  dut.scheduler.cancel_all();
  CHECK(swallowed == 3);
  CHECK(dut.log == LogLines{"other cancelled", "stubborn abandoned"});
  REQUIRE(dut.scheduler.abandoned().size() == 1);
  CHECK(dut.scheduler.abandoned()[0]->name() == "stubborn");
  CHECK(dut.scheduler.live_count() == 0);
  dut.scheduler.wake(stubborn);  // its device may still complete
  dut.engine.run();
  CHECK(swallowed == 3);
}

TEST_CASE("a fiber may recover from one cancellation to finish without blocking",
          "[fiber][cancel]") {
  FibersUnderTest dut;
  dut.spawn("f", [&] {
    try {
      dut.park();
    } catch (const Cancelled&) {
      dut.log.emplace_back("cleaning up");
    }
  });
  dut.engine.run();
  dut.scheduler.cancel_all();
  CHECK(dut.log == LogLines{"cleaning up", "f returned"});
}

TEST_CASE("a fiber that blocks in a destructor while it unwinds is abandoned", "[fiber][cancel]") {
  struct BlocksAtEnd {
    FibersUnderTest& dut;
    ~BlocksAtEnd() { dut.park(); }
  };
  FibersUnderTest dut;
  dut.spawn("f", [&] {
    const BlocksAtEnd scope{dut};
    dut.park();
  });
  dut.engine.run();
  dut.scheduler.cancel_all();
  CHECK(dut.log == LogLines{"f abandoned"});
}

TEST_CASE("an exception thrown instead of Cancelled is what the fiber ends with",
          "[fiber][cancel]") {
  FibersUnderTest dut;
  dut.spawn("f", [&] {
    try {
      dut.park();
    } catch (const Cancelled&) {
      throw std::runtime_error("translated");
    }
  });
  dut.engine.run();
  dut.scheduler.cancel_all();
  CHECK(dut.log == LogLines{"f threw"});
}

TEST_CASE("a fiber cancels the others at once and itself at its next park", "[fiber][cancel]") {
  FibersUnderTest dut;
  dut.spawn("a", [&] { dut.park(); });
  dut.spawn("b", [&] {
    dut.scheduler.cancel_all();
    dut.log.emplace_back("b goes on");
    dut.park();
    dut.log.emplace_back("never");
  });
  dut.spawn("c", [&] { dut.log.emplace_back("never"); });
  dut.engine.run();
  CHECK(dut.log == LogLines{"c cancelled", "a cancelled", "b goes on", "b cancelled"});
}

TEST_CASE("on_end of a failed fiber may cancel its siblings and spawn others", "[fiber][cancel]") {
  FibersUnderTest dut;
  dut.spawn("waits", [&] { dut.park(); });
  dut.scheduler.spawn(
      "fails", [] { throw 7; }, nullptr,
      [&](Fiber& fiber, const FiberResult&) {
        dut.scheduler.cancel_all();
        dut.spawn("next", [&] { dut.log.emplace_back("next runs"); });
        dut.log.push_back(fiber.name());
      });
  dut.engine.run();
  CHECK(dut.log == LogLines{"waits cancelled", "fails", "next runs", "next returned"});
}

TEST_CASE("a fiber that unwinds may use the main stack, wake and spawn", "[fiber][cancel]") {
  struct Busy {
    FibersUnderTest& dut;
    Fiber& peer;
    ~Busy() {
      dut.scheduler.wake(peer);
      dut.scheduler.call_on_main([this] { dut.log.emplace_back("on main"); });
      dut.spawn("late", [] {});
    }
  };
  FibersUnderTest dut;
  Fiber& peer = dut.spawn("peer", [&] { dut.park(); });
  dut.spawn("busy", [&] {
    const Busy busy{dut, peer};
    dut.park();
  });
  dut.engine.run();
  dut.scheduler.cancel(*dut.scheduler.live()[1]);
  dut.scheduler.cancel_all();
  dut.engine.run();
  CHECK(dut.log == LogLines{"on main", "busy cancelled", "late cancelled", "peer cancelled"});
}

}  // namespace kernbench::runtime::fiber_cancel_test
