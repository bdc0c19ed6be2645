#include "runtime/guards/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "runtime/fiber/fiber_local.h"
#include "runtime/guards/process_watch.h"
#include "sim_engine/base/append.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/unfinished_files.h"

namespace kernbench::runtime {

namespace {

using std::chrono::milliseconds;

// Returns a tenth of the shortest limit, so that every limit is kept to within that time.
milliseconds pause_for(const RunLimits& limits) {
  constexpr int kLooks = 10;
  milliseconds shortest{10'000};
  for (const milliseconds limit : {limits.kernel_time, limits.rank_notice, limits.rank_time}) {
    if (limit > milliseconds{0}) shortest = std::min(shortest, limit);
  }
  return std::max(shortest / kLooks, milliseconds{1});
}

// True if a debugger traces the process; only Linux tells.
bool is_traced() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("TracerPid:")) return line.find_first_of("123456789") != std::string::npos;
  }
  return false;
}

// The simulating thread may hold the lock of stdout for ever, so this only tries to take it.
void flush_stdout() {
  if (ftrylockfile(stdout) != 0) return;
  std::fflush(stdout);
  funlockfile(stdout);
}

void write_text(int descriptor, std::string_view text) {
  [[maybe_unused]] const ssize_t ignored = ::write(descriptor, text.data(), text.size());
}

std::string seconds(milliseconds time) {
  return fmt::format("{} s", std::chrono::duration<double>(time).count());
}

std::string read_last_call(const FiberLocal& local) {
  std::array<char, 512> buffer;
  return {buffer.data(), write_last_call(local, buffer)};
}

const FiberLocal* fiber_local_of(const Fiber& fiber) {
  return static_cast<const FiberLocal*>(fiber.local());
}

}  // namespace

Watchdog::Watchdog(const FiberScheduler& fibers, const RunLimits& limits)
    : fibers_(fibers),
      limits_(limits),
      pause_(pause_for(limits)),
      next_notice_(limits.rank_notice) {}

Watchdog::~Watchdog() {
  if (is_started_) ProcessWatch::instance().forget(*this);
}

void Watchdog::start() {
  ProcessWatch::instance().watch(*this);
  is_started_ = true;
}

void Watchdog::set_ranks(const Ranks& ranks) {
  const auto lock = ProcessWatch::instance().lock();
  ranks_ = &ranks;
}

void Watchdog::forget_ranks(const Ranks& ranks) {
  const auto lock = ProcessWatch::instance().lock();
  if (ranks_ == &ranks) ranks_ = nullptr;
}

// A fiber remains the same rank or kernel during its turn, so what is read in one turn is
// consistent.
void Watchdog::look() {
  const std::uint64_t turn = fibers_.turn();
  // Another fiber has run since the last look, so the present one has not run all the time.
  if (std::exchange(seen_turn_, turn) != turn) {
    turn_time_ = milliseconds{0};
    next_notice_ = limits_.rank_notice;
    return;
  }
  const Fiber* const fiber = fibers_.current();
  if (fiber == nullptr || fiber->local() == nullptr) return;
  turn_time_ += pause_;
  const FiberLocal::Kind kind = fiber_local_of(*fiber)->kind;
  if (!is_same_turn()) return;
  kind == FiberLocal::Kind::kernel ? look_at_kernel(*fiber) : look_at_rank(*fiber);
}

void Watchdog::look_at_kernel(const Fiber& fiber) {
  if (limits_.kernel_time <= milliseconds{0} || turn_time_ < limits_.kernel_time) return;
  const std::string name = fiber.name();
  if (!is_same_turn() || is_traced()) return;
  end(fmt::format(
      "kernbench: error: [KB-D003] {} ran {} without yielding\n"
      "  it computes, or loops for ever, and waits for nothing; a debugger shows where. If it only "
      "needs longer, raise RuntimeOptions::kernel_time_limit\n",
      name, seconds(limits_.kernel_time)));
}

void Watchdog::look_at_rank(const Fiber& fiber) {
  const bool is_over = limits_.rank_time > milliseconds{0} && turn_time_ >= limits_.rank_time;
  const bool is_due = limits_.rank_notice > milliseconds{0} && turn_time_ >= next_notice_;
  if (!is_over && !is_due) return;
  const std::string text = fiber.name();
  const std::string last_call = read_last_call(*fiber_local_of(fiber));
  if (!is_same_turn() || is_traced()) return;
  if (is_over) {
    end(fmt::format(
        "kernbench: error: [KB-D004] {} ran {} without waiting for anything or returning; {}\n"
        "  it computes, or loops for ever, and nobody else runs meanwhile; a debugger shows where. "
        "If it "
        "only needs longer, raise RuntimeOptions::rank_time_limit\n",
        text, seconds(limits_.rank_time), last_call));
  }
  write_text(STDERR_FILENO,
             fmt::format("kernbench: warning: [KB-D004] {} has run {} without waiting for "
                         "anything or returning; {}\n",
                         text, seconds(next_notice_), last_call));
  // A rank that computes for hours is named a few times, not at every look.
  next_notice_ *= 2;
}

void Watchdog::end(std::string_view text) {
  flush_stdout();
  write_text(STDERR_FILENO, text);
  end_process(static_cast<int>(ExitCode::deadlock));
}

// Tries again if fibers switch too quickly to read a consistent state.
void Watchdog::print_running(int descriptor) const {
  constexpr int kTries = 50;
  for (int i = 0; i < kTries && !print_running_once(descriptor); ++i) {
    std::this_thread::sleep_for(milliseconds{1});
  }
}

bool Watchdog::print_running_once(int descriptor) const {
  const std::uint64_t turn = fibers_.turn();
  const Fiber* const fiber = fibers_.current();
  if (fiber == nullptr || fiber->local() == nullptr) return false;
  const bool is_kernel = fiber_local_of(*fiber)->kind == FiberLocal::Kind::kernel;
  const std::string name = fiber->name();
  const std::string last_call = is_kernel ? "" : "; " + read_last_call(*fiber_local_of(*fiber));
  // The fiber was switched while its name was read, so the text may mix two fibers.
  if (fibers_.turn() != turn) return false;
  write_text(descriptor, fmt::format("  {} runs{}\n", name, last_call));
  return true;
}

void Watchdog::print_state(int descriptor) const {
  if (ranks_ != nullptr) ranks_->print_state(descriptor);
  const std::uint64_t turn = fibers_.turn();
  const Fiber* const fiber = fibers_.current();
  if (fiber == nullptr || fiber->local() == nullptr) return;
  if (fiber_local_of(*fiber)->kind != FiberLocal::Kind::kernel) return;  // listed with the ranks
  const std::string name = fiber->name();
  if (fibers_.turn() == turn) write_text(descriptor, fmt::format("  {} runs\n", name));
}

std::size_t write_last_call(const FiberLocal& local, std::span<char> buffer) noexcept {
  std::size_t length = 0;
  const auto room = [&] { return buffer.subspan(length); };
  const char* const function = local.last_call.function;
  if (function == nullptr) {
    return format_into(buffer, "it has called no collective, message or launch yet");
  }
  const std::int64_t sequence = local.last_call.sequence;
  const char* const file = local.last_call.file;
  length += format_into(room(), "its last call: {}", function);
  if (sequence >= 0) length += format_into(room(), "#{}", sequence);
  if (file != nullptr) {
    const std::string_view path(file);
    length += format_into(room(), " at {}:{}", path.substr(path.find_last_of('/') + 1),
                          local.last_call.line.load());
  }
  return length;
}

}  // namespace kernbench::runtime
