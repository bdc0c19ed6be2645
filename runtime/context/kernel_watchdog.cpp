#include "runtime/context/kernel_watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/context/fiber_local.h"
#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

using std::chrono::milliseconds;

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
  if (limit_ <= milliseconds{0} || thread_.joinable()) return;
  thread_ = std::thread([this] { watch(); });
}

void KernelWatchdog::watch() {
  const milliseconds pause = std::max(limit_ / kLooks, milliseconds{1});
  std::uint64_t seen_turn = 0;
  int looks = 0;  // that found a fiber in this turn
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, pause, [this] { return stop_; })) {
    const std::uint64_t turn = fibers_.turn();
    const Fiber* fiber = fibers_.current();
    if (turn != seen_turn || fiber == nullptr) looks = 0;
    seen_turn = turn;
    if (fiber == nullptr || ++looks <= kLooks) continue;
    looks = 0;
    report_if_kernel(turn, *fiber);
  }
}

void KernelWatchdog::report_if_kernel(std::uint64_t turn, const Fiber& fiber) const {
  const auto* local = static_cast<const FiberLocal*>(fiber.local());
  if (local == nullptr || local->kind != FiberLocal::Kind::kernel || is_traced()) return;
  std::array<char, 256> name;
  const std::size_t length = fiber.write_name(name);
  if (fibers_.turn() != turn || fibers_.current() == nullptr) return;  // it yields after all
  flush_stdout();
  fmt::print(stderr,
             "kernbench: error: [KB-D003] {} ran {} s without yielding\n"
             "  it computes, or loops for ever, and waits for nothing; a debugger shows where. If "
             "it only needs longer, raise RuntimeOptions::kernel_time_limit\n",
             std::string_view(name.data(), length), std::chrono::duration<double>(limit_).count());
  std::_Exit(static_cast<int>(ExitCode::deadlock));
}

}  // namespace kernbench::runtime
