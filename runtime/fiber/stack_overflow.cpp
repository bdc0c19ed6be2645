#include "runtime/fiber/stack_overflow.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

#include "runtime/fiber/fiber.h"
#include "runtime/fiber/stack_pool.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

#if defined(KERNBENCH_ASAN)

OverflowWatch::OverflowWatch(const StackPool& pool, const std::atomic<Fiber*>& current)
    : pool_(pool), current_(current) {}
OverflowWatch::~OverflowWatch() = default;

#else

namespace {

constexpr std::size_t kSignalStackBytes = 64 * 1024;

std::mutex watches_mutex;
OverflowWatch* watches = nullptr;  // written under the mutex; the handler reads without
struct sigaction previous_segv;
struct sigaction previous_bus;
volatile sig_atomic_t chained = 0;

const OverflowWatch* watch_of(const void* address) {
  for (const OverflowWatch* watch = watches; watch != nullptr; watch = watch->next()) {
    if (watch->pool().is_guard(address)) return watch;
  }
  return nullptr;
}

// Only what is async-signal-safe: the overflow may have happened inside malloc.
[[noreturn]] void report(const OverflowWatch& watch) {
  std::array<char, 128> name;
  const Fiber* fiber = watch.current();
  const std::size_t length = fiber == nullptr ? 0 : fiber->write_name(name);
  std::array<char, 512> text;
  const auto end = fmt::format_to_n(
      text.data(), text.size(),
      "kernbench: fatal: [KB-R005] fiber stack overflow in {} ({} KiB; recursion without end, or "
      "large local variables: raise FiberOptions::stack_bytes)\n",
      std::string_view(name.data(), length), watch.pool().stack_bytes() / 1024);
  const auto written = static_cast<std::size_t>(end.out - text.data());
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, text.data(), written);
  _exit(static_cast<int>(ExitCode::host_limit));
}

// A fault that is not ours.  Returning executes the access again, then under the default action.
void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = signal == SIGBUS ? previous_bus : previous_segv;
  const bool is_handler = previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN;
  if (!is_handler || chained != 0) {
    ::signal(signal, SIG_DFL);
    return;
  }
  chained = 1;  // a previous handler that comes back to us shall not go round for ever
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
  chained = 0;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (const OverflowWatch* watch = watch_of(info->si_addr)) report(*watch);
  pass_on(signal, info, context);
}

void give_thread_a_signal_stack() {
  stack_t present{};
  sigaltstack(nullptr, &present);
  if ((present.ss_flags & SS_DISABLE) == 0) return;
  void* memory = mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;  // an overflow then ends in a plain fault
  stack_t stack{};
  stack.ss_sp = memory;
  stack.ss_size = kSignalStackBytes;
  sigaltstack(&stack, nullptr);
}

// Again whenever another handler has taken the place of ours.
void install(int signal, struct sigaction& previous) {
  struct sigaction present {};
  sigaction(signal, nullptr, &present);
  if ((present.sa_flags & SA_SIGINFO) != 0 && present.sa_sigaction == on_fault) return;
  previous = present;
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(signal, &ours, nullptr);
}

}  // namespace

OverflowWatch::OverflowWatch(const StackPool& pool, const std::atomic<Fiber*>& current)
    : pool_(pool), current_(current) {
  const std::scoped_lock lock(watches_mutex);
  next_ = watches;
  watches = this;
  give_thread_a_signal_stack();
  install(SIGSEGV, previous_segv);
  install(SIGBUS, previous_bus);
}

OverflowWatch::~OverflowWatch() {
  const std::scoped_lock lock(watches_mutex);
  OverflowWatch** link = &watches;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

#endif

}  // namespace kernbench::runtime
