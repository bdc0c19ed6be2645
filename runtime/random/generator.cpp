#include "runtime/random/generator.h"

#include <map>

#include "runtime/fiber/fiber_local.h"
#include "runtime/random/philox.h"
#include "runtime/random/polar_normal.h"
#include "runtime/simulation/attachments.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::random {

namespace {

// They outlive a spawn()'s ranks, as a device does.
class Generators final : public runtime::Attachment {
 public:
  void forget_ranks() override {}
  Generator& of(int device) { return by_device_[device]; }

 private:
  std::map<int, Generator> by_device_;
};

float to_uniform(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24F;
}

// The block of numbers with this index; `attempt` counts those of one index.
PhiloxCounter block(std::uint64_t seed, std::uint64_t call, std::uint64_t index,
                    std::uint32_t attempt) {
  return philox(
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32) ^ attempt << 16,
       static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call >> 32)},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

}  // namespace

std::uint32_t Draw::bits(std::int64_t i) const {
  const auto index = static_cast<std::uint64_t>(i);
  return block(seed_, call_, index / 4, 0)[index % 4];
}

float Draw::uniform(std::int64_t i) const {
  return to_uniform(bits(i));
}

float Draw::normal(std::int64_t i) const {
  std::uint32_t attempt = 0;
  return polar_normal([&] {
    const PhiloxCounter numbers = block(seed_, call_, static_cast<std::uint64_t>(i), ++attempt);
    return UniformPair{to_uniform(numbers[0]), to_uniform(numbers[1])};
  });
}

Generator& Generator::of(runtime::Simulation& simulation, int device) {
  return simulation.attachments().get<Generators>().of(device);
}

void manual_seed(runtime::Simulation& simulation, std::uint64_t seed) {
  const runtime::FiberLocal& caller = simulation.local();
  if (caller.kind != runtime::FiberLocal::Kind::unbound) {
    return Generator::of(simulation, caller.device).manual_seed(seed);
  }
  const int devices = simulation.topology().system.sip_count;
  for (int device = 0; device < devices; ++device) {
    Generator::of(simulation, device).manual_seed(seed);
  }
}

std::vector<float> uniform(Generator& generator, std::int64_t count, double from, double to) {
  const Draw draw = generator.draw();
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    numbers[static_cast<std::size_t>(i)] =
        static_cast<float>(from) + draw.uniform(i) * static_cast<float>(to - from);
  }
  return numbers;
}

std::vector<float> normal(Generator& generator, std::int64_t count, double mean, double std) {
  const Draw draw = generator.draw();
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    numbers[static_cast<std::size_t>(i)] =
        static_cast<float>(mean) + draw.normal(i) * static_cast<float>(std);
  }
  return numbers;
}

}  // namespace kernbench::random
