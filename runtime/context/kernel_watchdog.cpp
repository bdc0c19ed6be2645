#include "runtime/context/kernel_watchdog.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/context/fiber_local.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

using std::chrono::milliseconds;

constexpr int kSignal = SIGURG;

// Of all watchdogs of the process the one that waits for an answer.
std::atomic<KernelWatchdog*> asking = nullptr;
struct sigaction previous;  // the handler before ours
std::once_flag installed;

void on_signal(int signal, siginfo_t* info, void* context) {
  KernelWatchdog* const watchdog = asking.load();
  if (watchdog != nullptr && watchdog->answer()) {
    asking = nullptr;
  } else if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  }
}

void install() {
  sigaction(kSignal, nullptr, &previous);
  struct sigaction ours {};
  ours.sa_sigaction = on_signal;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;  // a fiber's stack may be nearly full
  sigemptyset(&ours.sa_mask);
  sigaction(kSignal, &ours, nullptr);
}

void unblock() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, kSignal);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

// Linux tells; elsewhere nobody is.
bool is_traced() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("TracerPid:")) return line.find_first_of("123456789") != std::string::npos;
  }
  return false;
}

// The simulating thread may hold the lock of stdout, if that is what the kernel does all the time.
void flush_stdout() {
  if (ftrylockfile(stdout) != 0) return;
  std::fflush(stdout);
  funlockfile(stdout);
}

}  // namespace

KernelWatchdog::~KernelWatchdog() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_one();
  thread_.join();
}

void KernelWatchdog::start() {
  if (limit_ <= milliseconds{0}) return;
  simulating_thread_ = pthread_self();
  if (thread_.joinable()) return;
  std::call_once(installed, install);
  unblock();
  thread_ = std::thread([this] { watch(); });
}

void KernelWatchdog::watch() {
  const milliseconds pause = std::max(limit_ / kLooks, milliseconds{1});
  std::uint64_t seen_turn = 0;
  int looks = 0;  // that found a fiber in this turn
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, pause, [this] { return stop_; })) {
    const std::uint64_t turn = fibers_.turn();
    const bool is_in_fiber = fibers_.current() != nullptr;
    if (turn != seen_turn || !is_in_fiber) looks = 0;
    seen_turn = turn;
    if (!is_in_fiber || ++looks <= kLooks) continue;
    if (kernel_turn_.load(std::memory_order_acquire) == turn) report();
    if (asked_turn_ != turn && !is_traced()) ask(turn);
  }
  KernelWatchdog* own = this;
  asking.compare_exchange_strong(own, nullptr);
}

// Again at the next look if another watchdog waits for its answer.
void KernelWatchdog::ask(std::uint64_t turn) {
  KernelWatchdog* nobody = nullptr;
  if (asking == this) nobody = this;  // it has had no answer to an earlier turn
  const std::uint64_t before = asked_turn_.exchange(turn);
  if (asking.compare_exchange_strong(nobody, this)) {
    pthread_kill(simulating_thread_, kSignal);
  } else {
    asked_turn_ = before;
  }
}

bool KernelWatchdog::answer() noexcept {
  if (pthread_equal(pthread_self(), simulating_thread_) == 0) return false;
  const std::uint64_t turn = fibers_.turn();
  const Fiber* const fiber = fibers_.current();
  if (fiber == nullptr || turn != asked_turn_) return true;  // it has yielded after all
  const auto* const local = static_cast<const FiberLocal*>(fiber->local());
  if (local == nullptr || local->kind != FiberLocal::Kind::kernel) return true;
  name_length_ = fiber->write_name(name_);
  kernel_turn_.store(turn, std::memory_order_release);
  for (;;) pause();  // the process ends; a kernel that slept must not be woken by the signal
}

void KernelWatchdog::report() const {
  flush_stdout();
  fmt::print(stderr,
             "kernbench: error: [KB-D003] {} ran {} s without yielding\n"
             "  it computes, or loops for ever, and waits for nothing; a debugger shows where. If "
             "it only needs longer, raise RuntimeOptions::kernel_time_limit\n",
             std::string_view(name_.data(), name_length_),
             std::chrono::duration<double>(limit_).count());
  std::_Exit(static_cast<int>(ExitCode::deadlock));
}

}  // namespace kernbench::runtime
