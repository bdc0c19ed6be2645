// Simulated times of a calibration's rows, each once: those of a row for the values that it depends
// on are kept.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/calibration/parameters.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::calibration {

class RowTimes {
 public:
  struct Wanted {
    std::size_t row = 0;
    Texts texts;
  };

  // REQUIRES: all of them outlive this
  RowTimes(Bench& bench, const Calibration& calibration, const std::vector<Parameter>& parameters)
      : bench_(bench), calibration_(calibration), parameters_(parameters) {
    forget_what_moves();
  }

  // Simulates those that are not known, in as many processes as the run has jobs.  Throws what the
  // simulations do.
  std::vector<Time> of(std::span<const Wanted> wanted);
  // The times of all rows at each of the points.  Where two points differ in one parameter and a
  // row's time does not, to the picosecond, the row is taken not to depend on the parameter from
  // then on.
  std::vector<std::vector<Time>> at(std::span<const Texts> points);
  std::vector<Time> at(const Texts& point) { return at(std::span(&point, 1)).front(); }

  // Simulates all rows anew.  False if a time differs from the one that is kept: then a parameter
  // has begun to move a row, and nothing is taken for independent any more.
  bool verify(const Texts& point);

  std::size_t simulated() const { return simulated_; }

 private:
  enum class Effect : std::uint8_t { unknown, none, moves };
  using Known = std::pair<std::size_t, Texts>;

  Effect& effect(std::size_t row, std::size_t parameter) {
    return effects_[row * parameters_.size() + parameter];
  }
  const Effect& effect(std::size_t row, std::size_t parameter) const {
    return effects_[row * parameters_.size() + parameter];
  }
  void forget_what_moves();
  Known known_by(std::size_t row, const Texts& texts) const;
  void simulate(const std::map<Known, Texts>& missing);
  void learn(const Texts& texts, const std::vector<Time>& times);
  void enter_recent();

  Bench& bench_;
  const Calibration& calibration_;
  const std::vector<Parameter>& parameters_;
  std::map<Known, Time> times_;  // texts that a row does not depend on are empty
  std::vector<Effect> effects_;  // by row, then by parameter
  std::vector<std::pair<Texts, std::vector<Time>>> recent_;  // points to compare others with
  std::size_t simulated_ = 0;
};

}  // namespace kernbench::benches::calibration
