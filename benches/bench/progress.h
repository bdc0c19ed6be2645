// Shows people how far a sweep is: on a terminal as one line that is redrawn and cleared at the
// end, elsewhere as a line now and then if the sweep takes long.

#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "benches/bench/console.h"

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

}  // namespace kernbench::benches
