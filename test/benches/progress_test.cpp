#include "benches/bench/progress.h"

#include <catch2/catch.hpp>

#include "test/benches/program_under_test.h"
#include "test/benches/terminal.h"

namespace kernbench::benches::progress_test {

namespace {

using test::TemporaryFolder;
using test::Terminal;

// Shows states at given seconds after the start, to a file.
class ProgressUnderTest {
 public:
  explicit ProgressUnderTest(int descriptor)
      : progress_("latency", descriptor, [this] { return 1000 + now_; }) {}

  void show_at(double seconds, const SweepState& state) {
    now_ = seconds;
    progress_.show(state);
  }

 private:
  double now_ = 0;
  Progress progress_;
};

}  // namespace

TEST_CASE("a terminal shows the share, the times and the point that runs", "[progress]") {
  const Terminal terminal;
  if (!terminal.exists()) return;
  terminal.set_columns(100);
  const std::string first =
      "latency: 0 of 36 points (0%) after 0.1 s  ring_1d, 49152 elements of f16";
  const std::string second = "latency: 16 of 36 points (44%) after 41 s, about 82 s left  torus";
  const std::string third = "latency: 36 of 36 points (100%) after 1 h 06 min, about 0.0 s left";
  {
    ProgressUnderTest progress(terminal.descriptor());
    progress.show_at(0.1, {.total = 36, .running = "ring_1d, 49152 elements of f16"});
    CHECK(terminal.written() == '\r' + first);
    progress.show_at(41, {.total = 36, .restored = 6, .finished = 10, .running = "torus"});
    CHECK(terminal.written() == '\r' + second + std::string(first.size() - second.size(), ' '));
    progress.show_at(4000, {.total = 36, .finished = 36});
    CHECK(terminal.written() == '\r' + third);
  }
  // No escape sequence clears it, so that NO_COLOR has nothing to switch off.
  CHECK(terminal.written() == '\r' + std::string(third.size(), ' ') + '\r');
}

TEST_CASE("a terminal's line is never wider than the terminal", "[progress]") {
  const Terminal terminal;
  if (!terminal.exists()) return;
  terminal.set_columns(50);
  ProgressUnderTest progress(terminal.descriptor());
  progress.show_at(9.94, {.total = 9, .running = "한국어 이름"});
  CHECK(terminal.written() == "\rlatency: 0 of 9 points (0%) after 9.9 s");
  terminal.set_columns(20);
  progress.show_at(9.94, {.total = 9});
  CHECK(terminal.written() == "\rlatency: 0 of 9 poi");
}

TEST_CASE("where there is no terminal a line comes for each tenth, once it has taken long",
          "[progress]") {
  const TemporaryFolder folder;
  const int file = ::open(folder.path("log").c_str(), O_WRONLY | O_CREAT, 0600);
  {
    ProgressUnderTest progress(file);
    progress.show_at(9, {.total = 20, .finished = 5});
    progress.show_at(11, {.total = 20, .finished = 6});
    progress.show_at(12, {.total = 20, .finished = 7});
    progress.show_at(195, {.total = 20, .restored = 1, .finished = 13});
    progress.show_at(196, {.total = 20, .finished = 14});
  }
  ::close(file);
  CHECK(folder.read("log") ==
        "kernbench: latency: 6 of 20 points (30%) after 11 s, about 26 s left\n"
        "kernbench: latency: 14 of 20 points (70%) after 3 min 15 s, about 90 s left\n");
}

TEST_CASE("a long simulation tells how far it is, each time after twice as long", "[progress]") {
  const TemporaryFolder folder;
  const int file = ::open(folder.path("log").c_str(), O_WRONLY | O_CREAT, 0600);
  double now = 500;
  {
    SimulationProgress progress("train", file, [&] { return now; });
    for (const double second : {9.0, 10.5, 19.0, 85.0, 159.0, 161.0}) {
      now = 500 + second;
      progress.show(Time{static_cast<std::int64_t>(second) * 1'000'000}, 1234567);
    }
  }
  ::close(file);
  CHECK(folder.read("log") ==
        "kernbench: train: 10.000 us are simulated, 1,234,567 events, after 11 s\n"
        "kernbench: train: 85.000 us are simulated, 1,234,567 events, after 85 s\n"
        "kernbench: train: 161.000 us are simulated, 1,234,567 events, after 2 min 41 s\n");
}

}  // namespace kernbench::benches::progress_test
