// Stacks for fibers: mapped in slabs, handed out again youngest first, each with a guard page
// below.
//
// A guard page costs two of the process's mappings (vm.max_map_count, 65530 by default), so beyond
// FiberOptions::guard_limit stacks come without one.  A stack that is not used deeply takes one or
// two pages of memory, whatever its size.  Not thread-safe: a pool belongs to one scheduler.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace kernbench::runtime {

struct FiberOptions {
  // Usable bytes of each fiber's stack; rounded up to whole pages.
  std::size_t stack_bytes = 256 * 1024;
  // A stack has a guard page unless the process already has this many guarded stacks.
  std::size_t guard_limit = 16'000;
  // No more live stacks than this in one scheduler.
  std::size_t stack_limit = std::numeric_limits<std::size_t>::max();
};

// [bottom, bottom + size); it grows down from its end.
struct Stack {
  char* bottom = nullptr;
  std::size_t size = 0;

  char* top() const { return bottom + size; }
};

class StackPool {
 public:
  // REQUIRES: options.stack_bytes >= 16 KiB
  explicit StackPool(const FiberOptions& options);
  // Unmaps everything but what was leaked.
  // REQUIRES: every stack was released or leaked
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // Throws LimitError KB-L001 if the host has no room for another stack.
  Stack acquire();
  void release(Stack stack) noexcept;
  // The stack is never reused nor unmapped: pointers into it stay valid to the end of the process.
  void leak(Stack stack) noexcept;

  // Whether an access to `address` ran over the end of one of these stacks.  Async-signal-safe.
  bool is_guard(const void* address) const noexcept;
  // Whether it lies in the place of one of these stacks.  Async-signal-safe.
  bool contains(const void* address) const noexcept { return slab_of(address) != nullptr; }

  // At least as many are in each stack.
  std::size_t stack_bytes() const { return stack_bytes_; }
  std::size_t live_count() const { return live_count_; }
  // Live or waiting to be reused.
  std::size_t made_count() const { return made_count_; }
  std::size_t guarded_count() const { return guarded_count_; }
  // Over all pools of the process, leaked stacks included: what guard_limit is compared with.
  static std::size_t process_guarded_count();

 private:
  // Places of stride_ bytes each: the guard page, then the stack.
  struct Slab {
    char* base = nullptr;
    std::size_t place_count = 0;
    std::size_t used_count = 0;  // places made into stacks so far
    std::uint64_t guarded = 0;   // bit i: the guard page of place i is on
    bool leaked = false;
  };

  Stack stack_at(char* bottom) const;
  const Slab* slab_of(const void* address) const noexcept;
  void map_slab();
  Stack make_stack();
  void guard(Slab& slab, std::size_t place);
  [[noreturn]] void fail(const char* reason) const;

  FiberOptions options_;
  std::size_t stack_bytes_;
  std::size_t stride_;
  std::vector<Slab> slabs_;
  std::vector<char*> free_;  // bottoms; the last one is the next to go
  std::size_t live_count_ = 0;
  std::size_t made_count_ = 0;
  std::size_t guarded_count_ = 0;
};

}  // namespace kernbench::runtime
