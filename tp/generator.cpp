#include "tp/generator.h"

#include "sim_engine/values/transcendental.h"

namespace kernbench::tp {

std::uint64_t Generator::mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

float Generator::uniform() {
  return static_cast<float>(bits() >> 40) * 0x1p-24F;
}

float Generator::normal() {
  Generator own(bits());
  float u = 0;
  float square = 0;
  while (square == 0 || square >= 1) {
    u = 2 * own.uniform() - 1;
    const float v = 2 * own.uniform() - 1;
    square = u * u + v * v;
  }
  float factor = square;
  sim::log_elements(&factor, &factor, 1);
  factor = -2 * factor / square;
  sim::sqrt_elements(&factor, &factor, 1);
  return u * factor;
}

}  // namespace kernbench::tp
