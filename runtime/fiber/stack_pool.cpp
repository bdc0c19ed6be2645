#include "runtime/fiber/stack_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "runtime/fiber/sanitizer.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

constexpr std::size_t kStacksPerSlab = 64;  // bits of Slab::guarded
constexpr std::size_t kSmallestStack = 16 * 1024;

// Otherwise the tops of stacks, their hottest part, would all lie at the same offset in a page and
// compete for the same few sets of the caches.  Neighbours start at eight different offsets
// instead.
constexpr std::size_t kColours = 8;
constexpr std::size_t kColourStep = 256;  // alignment that Boost.Context needs

// vm.max_map_count limits the process, so guards are counted over all pools of the process.
constinit std::atomic<std::size_t> guarded_in_process{0};

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t round_up_to_page(std::size_t bytes) {
  return (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
}

// The distance between guard pages.  It is an odd number of pages, because translation buffers
// choose the set by the lowest bits of the page number.
std::size_t stride_for(std::size_t stack_bytes) {
  const std::size_t place = page_bytes() + stack_bytes + (kColours - 1) * kColourStep;
  return (round_up_to_page(place) / page_bytes() | 1) * page_bytes();
}

std::string max_map_count() {
  std::string count = "unknown";
  std::ifstream("/proc/sys/vm/max_map_count") >> count;
  return count;
}

// Returns nullptr if there is no room.  NORESERVE, since most of a stack is never touched.
char* map(std::size_t bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  // With huge pages every parked fiber would cost its whole stack.  This may fail: then the host
  // has none.
  madvise(base, bytes, MADV_NOHUGEPAGE);
  return static_cast<char*>(base);
}

}  // namespace

StackPool::StackPool(const FiberOptions& options)
    : options_(options),
      stack_bytes_(round_up_to_page(options.stack_bytes)),
      stride_(stride_for(stack_bytes_)) {
  KB_CHECK(options.stack_bytes >= kSmallestStack, "a fiber stack of {} bytes", options.stack_bytes);
}

StackPool::~StackPool() {
  for (const Slab& slab : slabs_) {
    if (slab.leaked) continue;
    unpoison(slab.base, slab.place_count * stride_);
    munmap(slab.base, slab.place_count * stride_);
    guarded_in_process -= static_cast<std::size_t>(std::popcount(slab.guarded));
  }
}

std::size_t StackPool::process_guarded_count() {
  return guarded_in_process;
}

Stack StackPool::acquire() {
  if (live_count_ >= options_.stack_limit) fail("the limit of this scheduler");
  if (free_.empty()) {
    const Stack stack = make_stack();
    ++live_count_;
    return stack;
  }
  const Stack stack = stack_at(free_.back());
  free_.pop_back();
  ++live_count_;
  unpoison(stack.bottom, stack.size);
  return stack;
}

Stack StackPool::stack_at(char* bottom) const {
  const std::size_t place = reinterpret_cast<std::uintptr_t>(bottom) / stride_;
  return {bottom, stack_bytes_ + place % kColours * kColourStep};
}

void StackPool::release(Stack stack) noexcept {
  --live_count_;
  free_.push_back(stack.bottom);  // never grows: make_stack() reserved the room
}

void StackPool::leak(Stack stack) noexcept {
  --live_count_;
  const_cast<Slab*>(find_slab(stack.bottom))->leaked = true;
  keep_reachable(stack.bottom, stack.size);
}

const StackPool::Slab* StackPool::find_slab(const void* address) const noexcept {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  for (const Slab& slab : slabs_) {
    const auto base = reinterpret_cast<std::uintptr_t>(slab.base);
    if (wanted - base < slab.place_count * stride_) return &slab;
  }
  return nullptr;
}

bool StackPool::is_guard(const void* address) const noexcept {
  const Slab* slab = find_slab(address);
  if (slab == nullptr) return false;
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - slab->base);
  const bool is_guarded = (slab->guarded >> (offset / stride_) & 1) != 0;
  return is_guarded && offset % stride_ < page_bytes();
}

Stack StackPool::make_stack() {
  if (slabs_.empty() || slabs_.back().used_count == slabs_.back().place_count) map_slab();
  if (free_.capacity() <= made_count_) free_.reserve(2 * made_count_ + kStacksPerSlab);
  Slab& slab = slabs_.back();
  const std::size_t place = slab.used_count;
  if (process_guarded_count() < options_.guard_limit) guard(slab, place);
  ++slab.used_count;
  ++made_count_;
  return stack_at(slab.base + place * stride_ + page_bytes());
}

void StackPool::map_slab() {
  for (std::size_t count = kStacksPerSlab; count > 0; count /= 2) {
    char* base = map(count * stride_);
    if (base == nullptr) continue;  // a smaller slab may still fit
    slabs_.push_back({.base = base, .place_count = count});
    return;
  }
  fail(std::strerror(errno));
}

// Guards a stack when it is first made, so that a run of six ranks pays for six.
void StackPool::guard(Slab& slab, std::size_t place) {
  if (mprotect(slab.base + place * stride_, page_bytes(), PROT_NONE) != 0) {
    fail(std::strerror(errno));
  }
  slab.guarded |= std::uint64_t{1} << place;
  ++guarded_count_;
  ++guarded_in_process;
}

void StackPool::fail(const char* reason) const {
  throw LimitError(
      "KB-L001",
      "no room for another fiber stack: {}\n  live: {} stacks of {} KiB; {} stacks made, {} of "
      "them with a guard page (two mappings each); vm.max_map_count is {}\n  use a topology with "
      "fewer ranks and PEs, smaller stacks, or raise vm.max_map_count and `ulimit -v`",
      reason, live_count_, stack_bytes_ / 1024, made_count_, guarded_count_, max_map_count());
}

}  // namespace kernbench::runtime
