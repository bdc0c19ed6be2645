#include "runtime/random/philox.h"

namespace kernbench::random {

namespace {

constexpr int kRounds = 10;

PhiloxCounter round(const PhiloxCounter& counter, const PhiloxKey& key) {
  const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
  const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
  return {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0],
          static_cast<std::uint32_t>(second),
          static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1],
          static_cast<std::uint32_t>(first)};
}

}  // namespace

PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int i = 0; i < kRounds; ++i) {
    if (i > 0) key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
    counter = round(counter, key);
  }
  return counter;
}

}  // namespace kernbench::random
