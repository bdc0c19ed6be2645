#include "runtime/fiber/fault_watch.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "runtime/fiber/fiber.h"
#include "runtime/fiber/stack_pool.h"
#include "sim_engine/base/append.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/unfinished_files.h"

namespace kernbench::runtime {

#if defined(KERNBENCH_ASAN)

FaultWatch::FaultWatch(const StackPool& pool, const std::atomic<Fiber*>& current)
    : pool_(pool), current_(current) {}
FaultWatch::~FaultWatch() = default;

#else

namespace {

constexpr std::size_t kSignalStackBytes = 64 * 1024;

std::mutex watches_mutex;
FaultWatch* watches = nullptr;  // written under the mutex; the handler reads it without
volatile sig_atomic_t chained = 0;
volatile sig_atomic_t named = 0;

struct Fault {
  int signal;
  std::string_view what;
  std::string_view why;
  struct sigaction previous;  // the previous handler
};
std::array<Fault, 4> faults = {{
    {SIGSEGV, "segmentation fault", "a null or dangling pointer, or an index out of range", {}},
    {SIGBUS, "bus error", "memory that is not there any more", {}},
    {SIGFPE, "arithmetic fault", "an integer division by zero, or one that overflows", {}},
    {SIGILL, "illegal instruction", "a trap of the compiler, or a jump to what is no code", {}},
}};

Fault& fault_of(int signal) {
  return *std::ranges::find(faults, signal, &Fault::signal);
}

const FaultWatch* watch_of(const void* address) {
  for (const FaultWatch* watch = watches; watch != nullptr; watch = watch->next()) {
    if (watch->pool().is_guard(address)) return watch;
  }
  return nullptr;
}

// The stack pointer of the faulting code; 0 if it is unknown.
std::uintptr_t stack_pointer(const void* context) {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return machine.sp;
#else
  return static_cast<void>(machine), 0;
#endif
}

// The system looks at the memory before it refuses the first argument.
bool is_readable(std::uintptr_t address) {
  constexpr std::uintptr_t kSetBytes = 8;
  return syscall(SYS_rt_sigprocmask, ~0, address & ~(kSetBytes - 1), nullptr, kSetBytes) != 0 &&
         errno != EFAULT;
}

// True if the code needed more stack than its thread has.  No other memory lies that near to the
// stack pointer: just below it, or above it if the pointer itself has left the stack.
bool is_overflow(std::uintptr_t address, std::uintptr_t pointer) {
  constexpr std::uintptr_t kCallBytes = 256;
  constexpr std::uintptr_t kFrameBytes = 1 << 20;
  if (address < pointer) return pointer - address <= kCallBytes;
  return address - pointer <= kFrameBytes && !is_readable(pointer);
}

// Returns the fiber on whose stack the faulting code ran; nullptr if on none, or if that is
// unknown.
const Fiber* fiber_at_fault(const void* context) {
  const auto* const frame = reinterpret_cast<const void*>(stack_pointer(context));
  for (const FaultWatch* watch = watches; watch != nullptr; watch = watch->next()) {
    if (!watch->pool().contains(frame)) continue;  // fibers of other pools may end meanwhile
    const Fiber* fiber = watch->current();
    if (fiber != nullptr && fiber->has_on_stack(frame)) return fiber;
  }
  return nullptr;
}

// All functions below are async-signal-safe: the fault may have happened inside malloc.

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
}

// "kernbench: fatal: [KB-R014] segmentation fault in rank 1, at address 0x10 (...)"
void name_fiber(const Fiber& fiber, const Fault& fault, const siginfo_t& info) {
  std::array<char, 128> name;
  const std::size_t length = fiber.write_name(name);
  std::array<char, 64> address;
  std::size_t address_length = 0;
  const bool has_address =  // si_addr; else the kernel does not say it
      (fault.signal == SIGSEGV || fault.signal == SIGBUS) && info.si_code != SI_KERNEL;
  if (has_address) {
    address_length =
        format_into(address, ", at address {:#x}", reinterpret_cast<std::uintptr_t>(info.si_addr));
  }
  std::array<char, 512> text;
  const std::size_t written =
      format_into(text, "kernbench: fatal: [KB-R014] {} in {}{} ({})\n", fault.what,
                  std::string_view(name.data(), length),
                  std::string_view(address.data(), address_length), fault.why);
  say({text.data(), written});
}

[[noreturn]] void report(const FaultWatch& watch) {
  std::array<char, 128> name;
  const Fiber* fiber = watch.current();
  const std::size_t length = fiber == nullptr ? 0 : fiber->write_name(name);
  std::array<char, 512> text;
  const std::size_t written = format_into(
      text,
      "kernbench: fatal: [KB-R005] fiber stack overflow in {} ({} KiB; recursion without end, or "
      "large local variables: put those on the heap)\n",
      std::string_view(name.data(), length), watch.pool().stack_bytes() / 1024);
  say({text.data(), written});
  end_process(static_cast<int>(ExitCode::host_limit));
}

[[noreturn]] void report_overflow_outside() {
  say("kernbench: fatal: [KB-R005] stack overflow outside of ranks and kernels (recursion without "
      "end, or local variables too large for `ulimit -s`: put those on the heap)\n");
  end_process(static_cast<int>(ExitCode::host_limit));
}

// True if code has faulted; otherwise the signal was sent.
bool is_fault(const siginfo_t& info) {
  return info.si_code > 0;
}

// After a fault, returning repeats the access under the default action; a sent signal is raised
// again.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = fault_of(signal).previous;
  if (!is_fault(*info) && previous.sa_handler == SIG_IGN) return;
  const bool is_handler = previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN;
  // The default action must see the fault itself, so that a core dump shows the right place.
  if (!is_handler || chained != 0) {
    ::signal(signal, SIG_DFL);
    if (!is_fault(*info)) raise(signal);
    return;
  }
  chained = 1;  // prevents a loop through a previous handler that calls ours
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
  chained = 0;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const bool is_access = signal == SIGSEGV || signal == SIGBUS;
  if (const FaultWatch* watch = is_access ? watch_of(info->si_addr) : nullptr) report(*watch);
  const Fiber* const fiber = is_fault(*info) && named == 0 ? fiber_at_fault(context) : nullptr;
  if (fiber != nullptr) {
    named = 1;
    name_fiber(*fiber, fault_of(signal), *info);
  } else if (is_access && is_fault(*info) &&
             is_overflow(reinterpret_cast<std::uintptr_t>(info->si_addr), stack_pointer(context))) {
    report_overflow_outside();
  }
  pass_on(signal, info, context);
}

void give_thread_a_signal_stack() {
  stack_t present{};
  sigaltstack(nullptr, &present);
  // A thread that has a stack for signals keeps it: it may be a sanitizer's.
  if ((present.ss_flags & SS_DISABLE) == 0) return;
  void* memory = mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;  // an overflow then ends in a plain fault
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kSignalStackBytes;
  sigaltstack(&stack, nullptr);
}

// Installs our handler, again if another one has replaced it.
void install(Fault& fault) {
  struct sigaction present {};
  sigaction(fault.signal, nullptr, &present);
  if ((present.sa_flags & SA_SIGINFO) != 0 && present.sa_sigaction == on_fault) return;
  fault.previous = present;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(fault.signal, &ours, nullptr);
}

}  // namespace

FaultWatch::FaultWatch(const StackPool& pool, const std::atomic<Fiber*>& current)
    : pool_(pool), current_(current) {
  const std::scoped_lock lock(watches_mutex);
  next_ = watches;
  watches = this;
  give_thread_a_signal_stack();
  for (Fault& fault : faults) install(fault);
}

FaultWatch::~FaultWatch() {
  const std::scoped_lock lock(watches_mutex);
  FaultWatch** link = &watches;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

#endif

}  // namespace kernbench::runtime
