#include "benches/bench/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace kernbench::benches {

namespace {

constexpr std::size_t kBarWidth = 20;
constexpr std::size_t kUsualColumns = 80;
constexpr double kPatience = 10;  // seconds before a line is worth it where there is no terminal

std::size_t columns_of(int terminal) {
  winsize size{};
  if (::ioctl(terminal, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualColumns;
  return size.ws_col;
}

bool begins_character(char c) {
  return (c & 0xC0) != 0x80;  // UTF-8
}

std::size_t column_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string cut(std::string text, std::size_t columns) {
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (begins_character(text[end]) && columns-- == 0) break;
  }
  text.resize(end);
  return text;
}

// "0.3 s", "41 s", "3 min 05 s", "2 h 07 min"
std::string duration(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 100) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::size_t done(const SweepState& state) {
  return state.restored + state.finished;
}

std::size_t percent(const SweepState& state) {
  return state.total == 0 ? 100 : done(state) * 100 / state.total;
}

// The estimated remaining time, if the remaining points take as long as those of this run.
std::optional<double> rest(const SweepState& state, double elapsed) {
  if (state.finished == 0) return std::nullopt;
  return elapsed / static_cast<double>(state.finished) *
         static_cast<double>(state.total - done(state));
}

}  // namespace

Progress::Clock Progress::wall_clock() {
  return [] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  };
}

Progress::Progress(std::string name, int descriptor, Clock clock)
    : name_(std::move(name)),
      descriptor_(descriptor),
      clock_(std::move(clock)),
      start_(clock_()),
      is_terminal_(::isatty(descriptor) != 0),
      console_(descriptor) {}

Progress::~Progress() {
  if (drawn_ > 0) console_.print('\r' + std::string(drawn_, ' ') + '\r');
}

void Progress::show(const SweepState& state) {
  const double elapsed = clock_() - start_;
  if (is_terminal_) {
    draw(line(state, elapsed));
  } else {
    report(state, elapsed);
  }
}

std::string Progress::line(const SweepState& state, double elapsed) const {
  const std::size_t filled = state.total == 0 ? 0 : done(state) * kBarWidth / state.total;
  std::string text = fmt::format("{} [{}{}] {}/{} {}%  {}", name_, std::string(filled, '#'),
                                 std::string(kBarWidth - filled, '.'), done(state), state.total,
                                 percent(state), duration(elapsed));
  if (const auto left = rest(state, elapsed)) text += fmt::format(", {} left", duration(*left));
  if (!state.running.empty()) text += "  " + state.running;
  return text;
}

// Clears with blanks instead of an escape sequence, which works on every terminal.
void Progress::draw(std::string text) {
  text = cut(std::move(text), columns_of(descriptor_) - 1);  // in the last one it would wrap
  const std::size_t columns = column_count(text);
  const std::string blanks(drawn_ > columns ? drawn_ - columns : 0, ' ');
  console_.print('\r' + text + blanks);
  drawn_ = columns;
}

void Progress::report(const SweepState& state, double elapsed) {
  const std::size_t tenths = percent(state) / 10;
  if (elapsed < kPatience || tenths <= reported_) return;
  reported_ = tenths;
  const auto left = rest(state, elapsed);
  console_.print(fmt::format("kernbench: {}: {} of {} points ({}%) after {}{}\n", name_,
                             done(state), state.total, percent(state), duration(elapsed),
                             left ? fmt::format(", about {} left", duration(*left)) : ""));
}

}  // namespace kernbench::benches
