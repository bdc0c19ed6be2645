// Conversions of f16 by the host's instructions for them, if the build may use these.

#pragma once

#include <cstddef>
#include <span>
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace kernbench::sim {

// The vector forms convert the first multiple of 8 elements and return how many these are.
#ifdef __F16C__
inline std::size_t encode_f16_vectors(std::span<const float> source, std::byte* target) {
  std::size_t i = 0;
  for (; i + 8 <= source.size(); i += 8) {
    const __m128i bits =
        _mm256_cvtps_ph(_mm256_loadu_ps(source.data() + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + 2 * i), bits);
  }
  return i;
}

inline std::size_t decode_f16_vectors(const std::byte* source, std::span<float> target) {
  std::size_t i = 0;
  for (; i + 8 <= target.size(); i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + 2 * i));
    _mm256_storeu_ps(target.data() + i, _mm256_cvtph_ps(bits));
  }
  return i;
}
#else
inline std::size_t encode_f16_vectors(std::span<const float>, std::byte*) {
  return 0;
}

inline std::size_t decode_f16_vectors(const std::byte*, std::span<float>) {
  return 0;
}
#endif

}  // namespace kernbench::sim
