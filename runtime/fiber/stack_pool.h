// Stacks for fibers.  They are mapped in slabs, reused youngest first, and have a guard page
// below.
//
// A guard page costs two of the process's mappings (vm.max_map_count, 65530 by default), so stacks
// beyond FiberOptions::guard_limit have none.  A stack that is not used deeply takes one or two
// pages of memory, whatever its size.  A pool is not thread-safe: it belongs to one scheduler.

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
  // The most live stacks that one scheduler may have.
  std::size_t stack_limit = std::numeric_limits<std::size_t>::max();
};

// The bytes [bottom, bottom + size); the stack grows down from its end.
struct Stack {
  char* bottom = nullptr;
  std::size_t size = 0;

  char* top() const { return bottom + size; }
};

class StackPool {
 public:
  // REQUIRES: options.stack_bytes >= 16 KiB
  explicit StackPool(const FiberOptions& options);
  // Unmaps all stacks except leaked ones.
  // REQUIRES: every stack was released or leaked
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // Throws LimitError KB-L001 if the host has no room for another stack.
  Stack acquire();
  void release(Stack stack) noexcept;
  // Never reuses or unmaps the stack: pointers into it stay valid to the end of the process.
  void leak(Stack stack) noexcept;

  // True if an access to `address` ran over the end of one of these stacks.  Async-signal-safe.
  bool is_guard(const void* address) const noexcept;
  // True if the address lies in one of these stacks or its guard page.  Async-signal-safe.
  bool contains(const void* address) const noexcept { return find_slab(address) != nullptr; }

  // The least number of usable bytes in each stack.
  std::size_t stack_bytes() const { return stack_bytes_; }
  std::size_t live_count() const { return live_count_; }
  // The number of stacks that are live or wait to be reused.
  std::size_t made_count() const { return made_count_; }
  std::size_t guarded_count() const { return guarded_count_; }
  // The number over all pools of the process, leaked stacks included: guard_limit is compared with
  // it.
  static std::size_t process_guarded_count();

 private:
  // A slab has places of stride_ bytes each: the guard page, then the stack.
  struct Slab {
    char* base = nullptr;
    std::size_t place_count = 0;
    std::size_t used_count = 0;  // places made into stacks so far
    std::uint64_t guarded = 0;   // bit i: place i has its guard page
    bool leaked = false;
  };

  Stack stack_at(char* bottom) const;
  const Slab* find_slab(const void* address) const noexcept;
  void map_slab();
  Stack make_stack();
  void guard(Slab& slab, std::size_t place);
  [[noreturn]] void fail(const char* reason) const;

  FiberOptions options_;
  std::size_t stack_bytes_;
  std::size_t stride_;
  std::vector<Slab> slabs_;
  std::vector<char*> free_;  // bottoms; the last one is reused next
  std::size_t live_count_ = 0;
  std::size_t made_count_ = 0;
  std::size_t guarded_count_ = 0;
};

}  // namespace kernbench::runtime
