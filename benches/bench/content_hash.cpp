#include "benches/bench/content_hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>

#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

constexpr std::uint64_t kStart = 0xcbf29ce484222325;

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  return std::rotl((hash ^ word) * 0x9e3779b97f4a7c15, 29);
}

// Hashes word by word, since a program has some ten megabytes and every sweep needs its hash.  Each
// step is a bijection of the word, so contents that differ in one word have different hashes.
std::uint64_t go_on(std::uint64_t hash, std::string_view content) {
  hash = mix(hash, content.size());
  while (!content.empty()) {
    std::uint64_t word = 0;
    const std::size_t count = std::min(content.size(), sizeof word);
    std::memcpy(&word, content.data(), count);
    hash = mix(hash, word);
    content.remove_prefix(count);
  }
  return hash;
}

std::uint64_t hash_program() {
  std::ifstream program("/proc/self/exe", std::ios::binary);
  std::array<char, 1 << 16> block;
  std::uint64_t hash = kStart;
  while (program.read(block.data(), block.size()) || program.gcount() > 0) {
    hash = go_on(hash, {block.data(), static_cast<std::size_t>(program.gcount())});
  }
  if (hash == kStart) throw LimitError("KB-L004", "cannot read /proc/self/exe: is /proc mounted?");
  return hash;
}

}  // namespace

std::uint64_t content_hash(std::string_view content) {
  return go_on(kStart, content);
}

std::uint64_t program_hash() {
  static const std::uint64_t hash = hash_program();
  return hash;
}

}  // namespace kernbench::benches
