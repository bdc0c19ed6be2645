// Hashes that are the same in every build.

#pragma once

#include <cstdint>
#include <string_view>

namespace kernbench::testing {

constexpr std::uint64_t hash_of(std::uint64_t hash, std::uint64_t value) {
  const std::uint64_t mixed = (hash ^ value) * 0x9e3779b97f4a7c15 + 0x94d049bb133111eb;
  return mixed ^ mixed >> 29;
}

constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = text.size();
  for (const char letter : text) hash = hash_of(hash, static_cast<unsigned char>(letter));
  return hash;
}

}  // namespace kernbench::testing
