#include "runtime/guards/process_guard.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <string>

#include "runtime/fiber/fiber_local.h"
#include "runtime/guards/failure.h"
#include "sim_engine/base/append.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/unfinished_files.h"

namespace kernbench::runtime {

namespace {

constexpr std::string_view kEndOfProcess = "  a worker ends by returning or by throwing\n";

std::mutex guards_mutex;
ProcessGuard* guards = nullptr;  // written under the mutex; the handler of a signal reads without
struct sigaction previous_abort;
volatile sig_atomic_t calling_previous = 0;
std::terminate_handler previous_terminate = nullptr;

// Returns the guard of the context on one of whose fibers the caller runs; nullptr if there is
// none.
const ProcessGuard* guard_of_stack(const void* frame) {
  for (const ProcessGuard* guard = guards; guard != nullptr; guard = guard->next()) {
    const Fiber* fiber = guard->fibers().current();
    if (fiber != nullptr && fiber->has_on_stack(frame)) return guard;
  }
  return nullptr;
}

// "kernbench: error: [KB-R006] rank 1 called exit(3) inside a worker".  Async-signal-safe.
void say(const ProcessGuard& guard, std::string_view did) {
  const Fiber& fiber = *guard.fibers().current();
  const auto* local = static_cast<const FiberLocal*>(fiber.local());
  const bool is_kernel = local != nullptr && local->kind == FiberLocal::Kind::kernel;
  std::array<char, 128> name;
  const std::size_t length = fiber.write_name(name);
  std::array<char, 512> text;
  const std::size_t written = format_into(text, "kernbench: error: [KB-R006] {} {} {}\n{}",
                                          std::string_view(name.data(), length), did,
                                          is_kernel ? "kernel" : "worker", kEndOfProcess);
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), written);
  guard.recorder().write("KB-R006", guard.fibers().now());
}

void end_if_in_fiber(std::string_view call) {
  const ProcessGuard* guard = nullptr;
  {
    const std::scoped_lock lock(guards_mutex);  // other threads may make contexts
    guard = guard_of_stack(__builtin_frame_address(0));
  }
  if (guard == nullptr) return;
  std::fflush(stdout);
  say(*guard, call);
  end_process(static_cast<int>(ExitCode::collective_misuse));
}

void on_exit_called(int status, void*) {
  std::array<char, 64> call;
  const std::size_t length = format_into(call, "called exit({}) inside a", status);
  end_if_in_fiber({call.data(), length});
}

void on_quick_exit() {
  end_if_in_fiber("called quick_exit() inside a");
}

// Distinguishes abort(), which this thread raises, from a SIGABRT that was sent: si_code tells.
std::string_view describe_cause(const siginfo_t& info) {
  return info.si_code == SI_TKILL ? "called abort() inside a" : "was sent SIGABRT inside a";
}

// SIGABRT is blocked while its handler runs, so it is unblocked here and raised again.
[[noreturn]] void end_by_abort() {
  remove_unfinished_files();
  ::signal(SIGABRT, SIG_DFL);
  sigset_t aborts;
  sigemptyset(&aborts);
  sigaddset(&aborts, SIGABRT);
  pthread_sigmask(SIG_UNBLOCK, &aborts, nullptr);
  raise(SIGABRT);
  end_process(128 + SIGABRT);
}

void on_abort(int signal, siginfo_t* info, void* context) {
  const ProcessGuard* const guard = guard_of_stack(__builtin_frame_address(0));
  if (guard != nullptr && calling_previous == 0) say(*guard, describe_cause(*info));
  const bool is_handler =
      previous_abort.sa_handler != SIG_DFL && previous_abort.sa_handler != SIG_IGN;
  if (is_handler && calling_previous == 0) {
    calling_previous = 1;
    if ((previous_abort.sa_flags & SA_SIGINFO) != 0) {
      previous_abort.sa_sigaction(signal, info, context);
    } else {
      previous_abort.sa_handler(signal);
    }
    calling_previous = 0;
  }
  end_by_abort();
}

// Installed without SA_ONSTACK: the handler finds the caller by its stack.
void watch_abort() {
  struct sigaction present {};
  sigaction(SIGABRT, nullptr, &present);
  if ((present.sa_flags & SA_SIGINFO) != 0 && present.sa_sigaction == on_abort) return;
  previous_abort = present;
  struct sigaction ours {};
  ours.sa_sigaction = on_abort;
  ours.sa_flags = SA_SIGINFO;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGABRT, &ours, nullptr);
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text;
  std::string word;
  while (std::getline(file, word, '\0')) text += (text.empty() ? "" : " ") + word;
  return text;
}

enum class Uncaught : std::uint8_t { ours, out_of_memory, cancelled, foreign };

Uncaught classify(const std::exception_ptr& exception) {
  if (exception == nullptr) return Uncaught::foreign;
  try {
    std::rethrow_exception(exception);
  } catch (const Error&) {
    return Uncaught::ours;
  } catch (const InternalError&) {
    return Uncaught::ours;
  } catch (const std::bad_alloc&) {
    return Uncaught::out_of_memory;
  } catch (const Cancelled&) {
    return Uncaught::cancelled;
  } catch (...) {
    return Uncaught::foreign;
  }
}

[[noreturn]] void on_terminate() {
  const std::exception_ptr exception = std::current_exception();
  const Uncaught kind = classify(exception);
  if (kind == Uncaught::out_of_memory) end_out_of_memory();
  if (kind == Uncaught::cancelled) {  // the run continues to the error that has ended it
    const ProcessGuard* const guard = guard_of_stack(__builtin_frame_address(0));
    if (guard != nullptr && guard->fibers().is_current_cancelled()) {
      guard->fibers().abandon_current();
    }
  }
  if (kind == Uncaught::ours) {
    const Failure failure = describe_failure(exception, command_line());
    std::fflush(stdout);
    fmt::print(stderr, "kernbench: error: {}\n", failure.text);
    std::fflush(stderr);
    // The exception may have come while this thread held the lock, so the records are written
    // without it if need be.
    const std::unique_lock lock(guards_mutex, std::try_to_lock);
    for (const ProcessGuard* guard = guards; guard != nullptr; guard = guard->next()) {
      if (!guard->recorder().has_failed_with(failure.code)) continue;
      guard->recorder().write(failure.code, guard->fibers().now());
      break;
    }
    end_process(static_cast<int>(failure.exit_code));
  }
  // An exception that is not ours ends the process as it would without this guard.
  if (previous_terminate != nullptr) previous_terminate();
  std::abort();
}

}  // namespace

ProcessGuard::ProcessGuard(FiberScheduler& fibers, const FlightRecorder& recorder)
    : fibers_(fibers), recorder_(recorder) {
  report_uncaught_errors();
  const std::scoped_lock lock(guards_mutex);
  static const bool exits_are_watched =
      ::on_exit(on_exit_called, nullptr) == 0 && std::at_quick_exit(on_quick_exit) == 0;
  static_cast<void>(exits_are_watched);
  watch_abort();
  next_ = guards;
  guards = this;
}

ProcessGuard::~ProcessGuard() {
  const std::scoped_lock lock(guards_mutex);
  ProcessGuard** link = &guards;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

void end_out_of_memory() noexcept {
  constexpr std::string_view kText = "kernbench: error: [KB-L002] out of memory\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kText.data(), kText.size());
  end_process(static_cast<int>(ExitCode::host_limit));
}

bool report_uncaught_errors() {
  static const bool is_installed = [] {
    previous_terminate = std::set_terminate(on_terminate);
    return true;
  }();
  return is_installed;
}

}  // namespace kernbench::runtime
