#include "runtime/fiber/stack_pool.h"

#include <catch2/catch.hpp>

#include "sim_engine/base/error.h"

namespace kernbench::runtime::stack_pool_test {

TEST_CASE("the stack that was released last is handed out first", "[stack_pool]") {
  StackPool pool(FiberOptions{});
  const Stack a = pool.acquire();
  const Stack b = pool.acquire();
  CHECK(a.size >= 256 * 1024);
  pool.release(a);
  pool.release(b);
  CHECK(pool.live_count() == 0);
  CHECK(pool.acquire().bottom == b.bottom);
  CHECK(pool.acquire().bottom == a.bottom);
  CHECK(pool.made_count() == 2);
  pool.release(a);
  pool.release(b);
}

TEST_CASE("there is a guard page right below each stack and nowhere else", "[stack_pool]") {
  StackPool pool(FiberOptions{.stack_bytes = 20'000});
  std::vector<Stack> stacks;
  for (int i = 0; i < 70; ++i) stacks.push_back(pool.acquire());  // more than one slab
  for (const Stack& stack : stacks) {
    CHECK(stack.size >= 20'480);  // whole pages
    CHECK(pool.is_guard(stack.bottom - 1));
    CHECK(pool.is_guard(stack.bottom - 4096));
    CHECK_FALSE(pool.is_guard(stack.bottom));
    CHECK_FALSE(pool.is_guard(stack.top() - 1));
  }
  CHECK_FALSE(pool.is_guard(&pool));
  CHECK_FALSE(pool.is_guard(nullptr));
  for (const Stack& stack : stacks) pool.release(stack);
}

TEST_CASE("beyond the limit of the process stacks have no guard page", "[stack_pool]") {
  const FiberOptions options{.guard_limit = StackPool::process_guarded_count() + 3};
  StackPool pool(options);
  StackPool other(options);
  std::vector<Stack> stacks;
  for (int i = 0; i < 2; ++i) stacks.push_back(pool.acquire());
  const Stack guarded = other.acquire();
  const Stack bare = other.acquire();
  CHECK(other.is_guard(guarded.bottom - 1));
  CHECK_FALSE(other.is_guard(bare.bottom - 1));
  CHECK(other.guarded_count() == 1);
  for (const Stack& stack : stacks) pool.release(stack);
  other.release(guarded);
  other.release(bare);
}

TEST_CASE("a pool that is gone gives its guards back", "[stack_pool]") {
  const std::size_t guard_limit = StackPool::process_guarded_count() + 1;
  for (int round = 0; round < 3; ++round) {
    StackPool pool(FiberOptions{.guard_limit = guard_limit});
    const Stack stack = pool.acquire();
    CHECK(pool.guarded_count() == 1);
    pool.release(stack);
  }
}

TEST_CASE("a leaked stack stays mapped", "[stack_pool]") {
  Stack leaked;
  {
    StackPool pool(FiberOptions{.guard_limit = 0});
    leaked = pool.acquire();
    *leaked.bottom = 'x';
    pool.leak(leaked);
    CHECK(pool.live_count() == 0);
  }
  CHECK(*leaked.bottom == 'x');
}

TEST_CASE("no room for a stack is a LimitError with the numbers and what to do", "[stack_pool]") {
  StackPool pool(FiberOptions{.stack_limit = 2});
  const Stack a = pool.acquire();
  const Stack b = pool.acquire();
  std::string text;
  try {
    pool.acquire();
  } catch (const LimitError& error) {
    CHECK(error.code() == "KB-L001");
    CHECK(error.exit_code() == ExitCode::host_limit);
    text = error.what();
  }
  CHECK_THAT(text, Catch::Contains("live: 2 stacks of 256 KiB") &&
                       Catch::Contains("vm.max_map_count is") && Catch::Contains("topology"));
  pool.release(a);
  CHECK(pool.acquire().bottom == a.bottom);  // the pool is still usable
  pool.release(a);
  pool.release(b);
}

TEST_CASE("so is a size that the host cannot map", "[stack_pool]") {
  StackPool pool(FiberOptions{.stack_bytes = std::size_t{1} << 48});
  CHECK_THROWS_AS(pool.acquire(), LimitError);
}

}  // namespace kernbench::runtime::stack_pool_test
