#include "benches/operators/input_elements.h"

#include <span>

namespace kernbench::benches::operators {

namespace {

// splitmix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t bits) {
  bits += 0x9e37'79b9'7f4a'7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58'476d'1ce4'e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d0'49bb'1331'11eb;
  return bits ^ (bits >> 31);
}

// The sum of four uniform numbers, nearly normal: mean 0, variance 1, at most 2 sqrt(3) away.
float bell(std::uint64_t bits) {
  std::int32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<std::int32_t>((bits >> (16 * i)) & 0xffff);
  constexpr float kSqrt3 = 1.7320508F;
  return static_cast<float>(sum - 2 * 0xffff) * (kSqrt3 / 65536);
}

}  // namespace

ElementSource::ElementSource(const InputSpec& spec, std::uint64_t seed, int number)
    : columns_(spec.extents.columns),
      mean_(static_cast<float>(spec.mean)),
      spread_(static_cast<float>(spec.spread)),
      key_(mix(mix(seed) + static_cast<std::uint64_t>(number))) {}

std::vector<float> ElementSource::rows(std::int64_t begin, std::int64_t count) const {
  std::vector<float> elements(static_cast<std::size_t>(count * columns_));
  std::uint64_t place = static_cast<std::uint64_t>(begin * columns_);
  for (float& element : elements) element = mean_ + spread_ * bell(mix(key_ ^ ++place));
  return elements;
}

std::vector<float> ElementSource::rows_with_small_ones(std::int64_t begin,
                                                       std::int64_t count) const {
  std::vector<float> elements = rows(begin, count);
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t number = begin + row;
    const float factor = number % 64 == 7 ? 0.0F : number % 16 == 3 ? 0x1p-10F : 1.0F;
    if (factor == 1.0F) continue;
    for (float& element : std::span(elements).subspan(static_cast<std::size_t>(row * columns_),
                                                      static_cast<std::size_t>(columns_))) {
      element *= factor;
    }
  }
  return elements;
}

}  // namespace kernbench::benches::operators
