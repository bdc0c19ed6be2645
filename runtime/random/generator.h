// The random numbers of torch.rand, randn, dropout, ...: one generator per device (ADR-0208).

#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace kernbench::runtime {
class Simulation;
}

namespace kernbench::random {

// The numbers of one call.  Number i depends on the seed, the call and i alone: whoever draws a
// part of them has the same ones, whatever the placement.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t call) : seed_(seed), call_(call) {}

  std::uint32_t bits(std::int64_t i) const;
  // A number in [0, 1), a multiple of 2^-24.
  float uniform(std::int64_t i) const;
  // A number with mean 0 and variance 1 (Marsaglia's polar method).
  float normal(std::int64_t i) const;

 private:
  std::uint64_t seed_;
  std::uint64_t call_;
};

class Generator {
 public:
  // Returns the generator of a device.
  static Generator& of(runtime::Simulation& simulation, int device);

  // Begins anew: equal seeds give equal numbers.
  void manual_seed(std::uint64_t seed) { *this = Generator(seed); }
  std::uint64_t initial_seed() const { return seed_; }
  Draw draw() { return {seed_, calls_++}; }
  // The seed and the number of calls since: what it gives next.
  std::array<std::uint64_t, 2> state() const { return {seed_, calls_}; }
  void set_state(const std::array<std::uint64_t, 2>& state) {
    seed_ = state[0];
    calls_ = state[1];
  }

  Generator() = default;

 private:
  explicit Generator(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t seed_ = 67280421310721;  // PyTorch's default
  std::uint64_t calls_ = 0;
};

// Seeds the caller's device; outside of ranks, all devices (torch.manual_seed).
void manual_seed(runtime::Simulation& simulation, std::uint64_t seed);

// `count` numbers of the next call.
std::vector<float> uniform(Generator& generator, std::int64_t count, double from, double to);
std::vector<float> normal(Generator& generator, std::int64_t count, double mean, double std);

}  // namespace kernbench::random
