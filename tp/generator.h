// Random numbers with the same bits on every host.

#pragma once

#include <cstdint>

namespace kernbench::tp {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): 64 bits of state, which are enough to initialize
// weights.  It has value semantics: a copy continues independently from the same state.  Each
// number, of any kind, is one step, so that any number can be drawn without the previous ones.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : state_(mixed(seed)) {}

  std::uint64_t bits() { return mixed(state_ += kStep); }
  // A number in [0, 1), a multiple of 2^-24.
  float uniform();
  // A normal number with mean 0 and variance 1 (Marsaglia's polar method, with a generator of its
  // own, since the method draws a varying count of numbers).
  float normal();
  // Advances as if `count` numbers had been drawn.
  void skip(std::int64_t count) { state_ += static_cast<std::uint64_t>(count) * kStep; }

  friend bool operator==(const Generator&, const Generator&) = default;

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;
  static std::uint64_t mixed(std::uint64_t bits);

  std::uint64_t state_;
};

}  // namespace kernbench::tp
