#include "benches/bench/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "benches/bench/head_and_foot.h"

namespace kernbench::benches {

namespace {

constexpr double kPatience = 10;  // seconds before a line is worth it where there is no terminal

// "0.3 s", "41 s", "3 min 05 s", "2 h 07 min"
std::string duration(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 100) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

// True if the byte continues a character of UTF-8, so that no text may begin with it.
bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
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
      console_(descriptor) {}

Progress::~Progress() {
  if (drawn_ > 0) console_.print('\r' + std::string(drawn_, ' ') + '\r');
}

// Estimates that the remaining points take as long as those of this run.
void Progress::show(const SweepState& state) {
  const double elapsed = clock_() - start_;
  const std::size_t done = state.restored + state.finished;
  const std::size_t percent = state.total == 0 ? 100 : done * 100 / state.total;
  std::string text = fmt::format("{}: {} of {} points ({}%) after {}", name_, done, state.total,
                                 percent, duration(elapsed));
  if (state.finished > 0) {
    const double each = elapsed / static_cast<double>(state.finished);
    text +=
        fmt::format(", about {} left", duration(each * static_cast<double>(state.total - done)));
  }
  if (::isatty(descriptor_) != 0) return draw(std::move(text), state.running);
  if (elapsed < kPatience || percent / 10 <= reported_) return;
  reported_ = percent / 10;
  console_.print("kernbench: " + text + '\n');
}

void SimulationProgress::show(Time simulated, std::uint64_t events) {
  const double elapsed = clock_() - start_;
  if (elapsed < next_) return;
  while (next_ <= elapsed) next_ *= 2;
  console_.print(fmt::format("kernbench: {}: {:.3f} us are simulated, {} events, after {}\n", name_,
                             to_ns(simulated) / 1e3, with_commas(events), duration(elapsed)));
}

// The point that runs is named where there is room, since a line that wraps could not be redrawn.
// Clears with blanks instead of an escape sequence, which works on every terminal.
void Progress::draw(std::string text, const std::string& running) {
  winsize size{};
  const bool is_known = ::ioctl(descriptor_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const std::size_t columns = is_known ? size.ws_col - 1U : 79;
  std::size_t shown = std::min(text.size(), columns);
  while (shown < text.size() && is_continuation(text[shown])) --shown;
  text.resize(shown);
  if (!running.empty() && text.size() + 2 + running.size() <= columns) text += "  " + running;
  console_.print(fmt::format("\r{:<{}}", text, std::min(drawn_, columns)));
  drawn_ = text.size();
}

}  // namespace kernbench::benches
