#include "runtime/random/polar_normal.h"
#include "tp/random.h"

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
  return random::polar_normal([&] {
    const float u = own.uniform();
    return random::UniformPair{u, own.uniform()};
  });
}

}  // namespace kernbench::tp
