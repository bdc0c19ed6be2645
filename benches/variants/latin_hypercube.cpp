#include "benches/variants/latin_hypercube.h"

#include <numeric>
#include <utility>

#include "runtime/random/philox.h"

namespace kernbench::benches::variants {

namespace {

enum class DrawnFor : std::uint8_t { permutation, place };

// 64 random bits for a number of a dimension.
std::uint64_t draw_bits(std::uint64_t seed, std::size_t dimension, std::size_t number,
                        DrawnFor purpose) {
  const random::PhiloxKey key = {static_cast<std::uint32_t>(seed),
                                 static_cast<std::uint32_t>(seed >> 32)};
  const auto bits =
      random::philox({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(dimension),
                      static_cast<std::uint32_t>(purpose), 0},
                     key);
  return (std::uint64_t{bits[1]} << 32) | bits[0];
}

// A number in [0, 1).
double draw_place(std::uint64_t seed, std::size_t dimension, std::size_t number) {
  constexpr double kPerStep = 0x1p-53;
  return static_cast<double>(draw_bits(seed, dimension, number, DrawnFor::place) >> 11) * kPerStep;
}

// The parts 0, 1, ... in random order (R. Durstenfeld, 1964).
std::vector<std::size_t> draw_order(std::uint64_t seed, std::size_t dimension, std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = count; left > 1; --left) {
    // A remainder of 64 bits prefers no part by more than 2^-40 where there are fewer than 2^24.
    const std::uint64_t bits = draw_bits(seed, dimension, left, DrawnFor::permutation);
    std::swap(order[left - 1], order[bits % left]);
  }
  return order;
}

}  // namespace

std::vector<std::vector<double>> latin_hypercube(std::size_t count, std::size_t dimension_count,
                                                 std::uint64_t seed) {
  std::vector<std::vector<double>> points(count);
  for (std::size_t dimension = 0; dimension < dimension_count; ++dimension) {
    const std::vector<std::size_t> parts = draw_order(seed, dimension, count);
    for (std::size_t i = 0; i < count; ++i) {
      const double place = static_cast<double>(parts[i]) + draw_place(seed, dimension, i);
      points[i].push_back(place / static_cast<double>(count));
    }
  }
  return points;
}

}  // namespace kernbench::benches::variants
