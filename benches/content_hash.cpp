#include "benches/content_hash.h"

#include <fmt/format.h>

#include <array>
#include <fstream>

#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

constexpr std::uint64_t kStart = 0xcbf29ce484222325;
constexpr std::uint64_t kPrime = 0x100000001b3;

std::uint64_t go_on(std::uint64_t hash, std::string_view content) {
  for (const char c : content) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return hash;
}

}  // namespace

std::uint64_t content_hash(std::string_view content) {
  return go_on(kStart, content);
}

std::uint64_t program_hash() {
  std::ifstream program("/proc/self/exe", std::ios::binary);
  std::array<char, 1 << 16> block;
  std::uint64_t hash = kStart;
  while (program.read(block.data(), block.size()) || program.gcount() > 0) {
    hash = go_on(hash, {block.data(), static_cast<std::size_t>(program.gcount())});
  }
  if (hash == kStart) throw LimitError("KB-L004", "cannot read /proc/self/exe: is /proc mounted?");
  return hash;
}

}  // namespace kernbench::benches
