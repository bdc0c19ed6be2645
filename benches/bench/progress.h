// Shows people how far a sweep is: on a terminal as one line that is redrawn and cleared at the
// end, elsewhere as a line now and then if the sweep takes long.  Of a bench without a sweep, whose
// end nobody knows, lines tell how far its simulation is.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "benches/bench/console.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches {

struct SweepState {
  std::size_t total = 0;
  std::size_t restored = 0;  // finished before this run
  std::size_t finished = 0;  // by this run
  std::string running = {};  // the first point that runs
};

class Progress {
 public:
  // Seconds since any fixed moment.
  using Clock = std::function<double()>;

  Progress(std::string name, int descriptor, Clock clock = wall_clock());
  // Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Call it several times a second.
  void show(const SweepState& state);

  static Clock wall_clock();

 private:
  void draw(std::string text, const std::string& running);

  const std::string name_;
  const int descriptor_;
  const Clock clock_;
  const double start_;
  Console console_;
  std::size_t drawn_ = 0;     // bytes of the line on the terminal
  std::size_t reported_ = 0;  // tenths of the sweep
};

// A line after 10 seconds, and whenever the time since the beginning has doubled.
class SimulationProgress {
 public:
  SimulationProgress(std::string name, int descriptor,
                     Progress::Clock clock = Progress::wall_clock())
      : name_(std::move(name)), clock_(std::move(clock)), start_(clock_()), console_(descriptor) {}

  // Call it several times a minute.
  void show(Time simulated, std::uint64_t events);

 private:
  const std::string name_;
  const Progress::Clock clock_;
  const double start_;
  Console console_;
  double next_ = 10;
};

}  // namespace kernbench::benches
