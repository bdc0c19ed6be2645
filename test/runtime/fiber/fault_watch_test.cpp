// Failures that end the process, each tried in a child of its own.

#include <catch2/catch.hpp>
#include <stdexcept>
#include <thread>

#include "test/runtime/fiber/fiber_under_test.h"
#include "test/runtime/fiber/run_in_child.h"
#include "test/support/error_text.h"

namespace kernbench::runtime::fault_watch_test {

TEST_CASE("blocking in a destructor while an exception propagates ends the process",
          "[fiber][exceptions]") {
  struct BlocksAtEnd {
    FibersUnderTest& dut;
    ~BlocksAtEnd() { dut.park(); }
  };
  const Ended ended = run_in_child([] {
    FibersUnderTest dut;
    dut.spawn("rank 3", [&] {
      const BlocksAtEnd scope{dut};
      throw std::runtime_error("boom");
    });
    dut.engine.run();
  });
  CHECK(ended.exit_code == 21);
  CHECK_THAT(ended.standard_error,
             test::Says("KB-R008", "blocking", "unwinding", "3", "destructor"));
}

#if !defined(KERNBENCH_ASAN)

namespace {

// 1 KiB a level; the sum keeps the call from becoming a loop.
int recurse(int depth) {  // NOLINT(misc-no-recursion)
  volatile char block[1024];
  block[0] = static_cast<char>(depth);
  return depth == 0 ? 0 : recurse(depth - 1) + block[0];
}

}  // namespace

TEST_CASE("a stack overflow names the fiber and the size of its stack", "[stack_overflow]") {
  const Ended ended = run_in_child([] {
    FibersUnderTest dut(FiberOptions{.stack_bytes = 64 * 1024});
    dut.spawn("rank 0", [&] { dut.park(); });
    dut.spawn("rank 1", [] { recurse(1'000'000); });
    dut.engine.run();
  });
  CHECK(ended.exit_code == 71);
  CHECK_THAT(ended.standard_error, test::Says("KB-R005", "1", "64 KiB"));
}

TEST_CASE("a stack overflow on another thread is told too", "[stack_overflow]") {
  const Ended ended = run_in_child([] {
    const FibersUnderTest beside;
    std::thread([] {
      FibersUnderTest dut(FiberOptions{.stack_bytes = 64 * 1024});
      dut.spawn("rank 5", [] { recurse(1'000'000); });
      dut.engine.run();
    }).join();
  });
  CHECK(ended.exit_code == 71);
  CHECK_THAT(ended.standard_error, Catch::Contains("overflow in rank 5 (64 KiB;"));
}

TEST_CASE("a stack overflow outside of fibers is told, on any thread with a context",
          "[stack_overflow]") {
  const auto overflow = [] {
    const FibersUnderTest dut;
    recurse(1'000'000);
  };
  const bool is_main = GENERATE(true, false);
  const Ended ended = run_in_child([&] { is_main ? overflow() : std::thread(overflow).join(); });
  CHECK(ended.exit_code == 71);
  CHECK_THAT(ended.standard_error,
             Catch::StartsWith("kernbench: fatal: [KB-R005] stack overflow outside of ranks"));
}

TEST_CASE("a write beyond the first frame of a thread is no overflow", "[faults]") {
  const Ended ended = run_in_child([] {
    std::thread([] {
      const FibersUnderTest dut;
      volatile char local = 1;
      for (volatile char* at = &local;; at += 64) *at = 0;
    }).join();
  });
  CHECK(ended.exit_code == -SIGSEGV);
  CHECK(ended.standard_error.empty());
}

TEST_CASE("a frame far larger than the stack cannot jump over the guard page", "[stack_overflow]") {
  const Ended ended = run_in_child([] {
    FibersUnderTest dut(FiberOptions{.stack_bytes = 64 * 1024});
    dut.spawn("rank 0", [] {
      volatile char block[1 << 20];
      block[0] = 1;
      CHECK(block[0] == 1);
    });
    dut.engine.run();
  });
  CHECK(ended.exit_code == 71);
}

namespace {

void write_to_address_16() {
  volatile std::uintptr_t nowhere = 16;
  *reinterpret_cast<volatile int*>(nowhere) = 1;
}

}  // namespace

TEST_CASE("a fault in a fiber names it, and ends the process by its signal", "[faults]") {
  const Ended ended = run_in_child([] {
    FibersUnderTest dut;
    dut.spawn("rank 0", [&] { dut.park(); });
    dut.spawn("rank 1", write_to_address_16);
    dut.engine.run();
  });
  CHECK(ended.exit_code == -SIGSEGV);
  CHECK_THAT(ended.standard_error, test::Says("KB-R014", "segmentation fault", "rank 1", "0x10"));
}

TEST_CASE("an address that no pointer can have has none in the report", "[faults]") {
  const Ended ended = run_in_child([] {
    FibersUnderTest dut;
    dut.spawn("rank 1", [] {
      volatile std::uintptr_t nowhere = std::uintptr_t{1} << 62;
      *reinterpret_cast<volatile int*>(nowhere) = 1;
    });
    dut.engine.run();
  });
  CHECK(ended.exit_code == -SIGSEGV);
  CHECK_THAT(ended.standard_error, Catch::Contains("segmentation fault in rank 1 (a null or"));
}

TEST_CASE("a division by zero and a trap in a fiber name it", "[faults]") {
  const Ended division = run_in_child([] {
    FibersUnderTest dut;
    dut.spawn("rank 2", [] {
      volatile int number = 7;
      volatile int zero = 0;
      number = number / zero;
    });
    dut.engine.run();
  });
  CHECK(division.exit_code == -SIGFPE);
  CHECK_THAT(division.standard_error,
             Catch::StartsWith("kernbench: fatal: [KB-R014] arithmetic fault in rank 2 ("));
  const Ended trap = run_in_child([] {
    FibersUnderTest dut;
    dut.spawn("rank 3", [] { __builtin_trap(); });
    dut.engine.run();
  });
  CHECK(trap.exit_code == -SIGILL);
  CHECK_THAT(trap.standard_error,
             Catch::StartsWith("kernbench: fatal: [KB-R014] illegal instruction in rank 3 ("));
}

TEST_CASE("a fault outside of fibers, and a signal that somebody sent, keep their meaning",
          "[faults]") {
  const Ended outside = run_in_child([] {
    const FibersUnderTest dut;
    write_to_address_16();
  });
  CHECK(outside.exit_code == -SIGSEGV);
  CHECK(outside.standard_error.empty());
  const Ended sent = run_in_child([] {
    FibersUnderTest dut;
    dut.spawn("rank 0", [] { kill(getpid(), SIGSEGV); });
    dut.engine.run();
  });
  CHECK(sent.exit_code == -SIGSEGV);
  CHECK(sent.standard_error.empty());
}

TEST_CASE("a handler that was there before is called, behind the report", "[faults]") {
  const Ended ended = run_in_child([] {
    std::signal(SIGSEGV, [](int) { _exit(7); });
    FibersUnderTest dut;
    dut.spawn("rank 4", write_to_address_16);
    dut.engine.run();
  });
  CHECK(ended.exit_code == 7);
  CHECK_THAT(ended.standard_error, Catch::Contains("segmentation fault in rank 4, at"));
}

#endif

}  // namespace kernbench::runtime::fault_watch_test
