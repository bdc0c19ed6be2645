#include "sim_engine/components/hbm_allocator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <vector>

#include "sim_engine/base/check.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::hbm_allocator_test {
namespace {

using sim::HbmAllocator;

// 2 cubes of 2 PEs with 1 MiB of HBM in 2 slices: 512 KiB for each PE.
Topology small_hbm() {
  Topology topology = round_topology(SipTopology::ring_1d, 1, 1, 2, 1);
  topology.cube.hbm.capacity = 1 << 20;
  return topology;
}
constexpr Bytes kSlice = 512 << 10;

TEST_CASE("each PE takes from the slice of its own", "[tensor][allocator]") {
  const Topology topology = small_hbm();
  HbmAllocator allocator(topology, 0);
  CHECK(allocator.allocate(0, 0, 100) == 0);
  CHECK(allocator.allocate(0, 1, 100) == kSlice);
  CHECK(allocator.allocate(1, 0, 100) == 2 * kSlice);
  CHECK(allocator.allocate(1, 1, 100) == 3 * kSlice);
}

TEST_CASE("PEs that share a slice take from it together", "[tensor][allocator]") {
  Topology topology = small_hbm();
  topology.cube.hbm.channels = 1;
  HbmAllocator allocator(topology, 0);
  CHECK(allocator.allocate(0, 0, 256) == 0);
  CHECK(allocator.allocate(0, 1, 256) == 256);
  CHECK(allocator.allocate(1, 1, 256) == 1 << 20);
}

TEST_CASE("blocks begin every 256 bytes, also those of no bytes", "[tensor][allocator]") {
  const Topology topology = small_hbm();
  HbmAllocator allocator(topology, 0);
  CHECK(allocator.allocate(0, 0, 1) == 0);
  CHECK(allocator.allocate(0, 0, 257) == 256);
  CHECK(allocator.allocate(0, 0, 0) == 768);
  CHECK(allocator.allocate(0, 0, 1) == 1024);
  CHECK(allocator.allocated() == 1280);
}

TEST_CASE("a slice can be taken to its last byte and not beyond", "[tensor][allocator]") {
  const Topology topology = small_hbm();
  HbmAllocator allocator(topology, 0);
  CHECK_THAT(error_of<DeviceError>([&] { allocator.allocate(1, 1, kSlice + 1); }),
             test::Says("KB-M010", "sip0.cube1.pe1", "524289 B", "524288 B"));
  CHECK(allocator.allocate(1, 1, kSlice) == 3 * kSlice);
  CHECK_THAT(error_of<DeviceError>([&] { allocator.allocate(1, 1, 1); }),
             test::Says("KB-M010", "sip0.cube1.pe1", "1 B", "0 B", "524288 B"));
  allocator.free(3 * kSlice, kSlice);
  CHECK(allocator.allocate(1, 1, kSlice) == 3 * kSlice);
}

TEST_CASE("freed neighbours join, whatever the order", "[tensor][allocator]") {
  const Topology topology = small_hbm();
  std::vector<int> order{0, 1, 2, 3};
  do {
    HbmAllocator allocator(topology, 0);
    for (int i = 0; i < 4; ++i) allocator.allocate(0, 0, kSlice / 4);
    for (const int i : order) allocator.free(i * kSlice / 4, kSlice / 4);
    CHECK(allocator.allocated() == 0);
    CHECK(allocator.allocate(0, 0, kSlice) == 0);
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("what is not allocated cannot be freed", "[tensor][allocator]") {
  const Topology topology = small_hbm();
  HbmAllocator allocator(topology, 0);
  allocator.allocate(0, 0, 256);
  allocator.allocate(0, 0, 256);
  allocator.free(0, 256);
  CHECK_THROWS_AS(allocator.free(0, 256), InternalError);
  CHECK_THROWS_AS(allocator.free(512, 256), InternalError);
}

// The life of a tensor's blocks, by the numbers of their allocation and their free.
struct Life {
  std::uint64_t made = 0;
  std::uint64_t freed = UINT64_MAX;
  Bytes bytes = 0;  // of each block
  std::vector<Bytes> addresses = {};
  MemoryKind kind = MemoryKind::temporary;  // the last that it has had
};

// Returns the bytes allocated behind event `at`, by the kinds that blocks have in the end.
MemoryByKind kinds_at(const std::vector<Life>& lives, std::uint64_t at) {
  MemoryByKind kinds;
  for (const Life& life : lives) {
    if (life.made <= at && life.freed > at) {
      kinds[life.kind] += life.bytes * std::ssize(life.addresses);
    }
  }
  return kinds;
}

MemoryByKind kinds_at_first_peak(const std::vector<Life>& lives, std::uint64_t events) {
  MemoryByKind most;
  for (std::uint64_t at = 1; at <= events; ++at) {
    const MemoryByKind kinds = kinds_at(lives, at);
    if (kinds.sum() > most.sum()) most = kinds;
  }
  return most;
}

TEST_CASE("the peak by kind is that of the blocks' lives, whenever a kind becomes known",
          "[tensor][allocator]") {
  const Topology topology = small_hbm();
  std::mt19937 random(3);
  for (int program = 0; program < 200; ++program) {
    HbmAllocator allocator(topology, 0);
    std::vector<Life> lives;
    std::uint64_t events = 0;
    for (int i = 0; i < 60; ++i) {
      std::vector<Life*> live;
      for (Life& life : lives) {
        if (life.freed == UINT64_MAX) live.push_back(&life);
      }
      const auto action = random() % 5;
      if (action == 0 && !live.empty()) {
        Life& life = *live[random() % live.size()];
        life.freed = ++events;
        for (const Bytes address : life.addresses) {
          allocator.free(address, life.bytes, {.kind = life.kind, .event = life.freed});
        }
      } else if (action == 1 && !live.empty()) {
        Life& life = *live[random() % live.size()];
        const auto kind = static_cast<MemoryKind>(random() % kAllMemoryKinds.size());
        for (std::size_t block = 0; block < life.addresses.size(); ++block) {
          allocator.change_kind(life.bytes, life.made, life.kind, kind);
        }
        life.kind = kind;
      } else if (action == 2) {  // one block of a tensor was allocated, and the next refused
        const HbmAllocator::Sums before = allocator.sums();
        const sim::HbmUse use{.event = ++events};
        const Bytes address = allocator.allocate(0, 0, 256 * 64, use);
        REQUIRE_THROWS_AS(allocator.allocate(0, 1, kSlice + 1, use), DeviceError);
        allocator.free(address, 256 * 64, use);
        allocator.set_sums(before);
      } else {
        Life life{.made = ++events, .bytes = static_cast<Bytes>(256 * (1 + random() % 8))};
        const auto blocks = 1 + random() % 4;
        for (unsigned block = 0; block < blocks; ++block) {
          life.addresses.push_back(allocator.allocate(static_cast<int>(block / 2),
                                                      static_cast<int>(block % 2), life.bytes,
                                                      {.event = life.made}));
        }
        lives.push_back(life);
      }
    }
    REQUIRE(allocator.by_kind() == kinds_at(lives, events));
    REQUIRE(allocator.peak_by_kind() == kinds_at_first_peak(lives, events));
    REQUIRE(allocator.peak_by_kind() == kinds_at(lives, allocator.peak_event()));
    REQUIRE(allocator.peak_by_kind().sum() == allocator.peak());
  }
}

// A map of bytes in units of 256 that knows nothing of blocks.
class Reference {
 public:
  std::optional<std::size_t> first_fit(std::size_t units) const {
    for (std::size_t begin = 0; begin + units <= taken_.size(); ++begin) {
      const auto first = taken_.begin() + static_cast<std::ptrdiff_t>(begin);
      if (std::none_of(first, first + static_cast<std::ptrdiff_t>(units),
                       [](bool taken) { return taken; })) {
        return begin;
      }
    }
    return std::nullopt;
  }
  void set(std::size_t begin, std::size_t units, bool taken) {
    for (std::size_t i = 0; i < units; ++i) taken_[begin + i] = taken;
  }
  Bytes allocated() const { return 256 * std::ranges::count(taken_, true); }

 private:
  std::vector<bool> taken_ = std::vector<bool>(64);
};

TEST_CASE("10,000 random allocations and frees agree with a map of bytes", "[tensor][allocator]") {
  Topology topology = small_hbm();
  topology.cube.hbm.capacity = 2 * 64 * 256;
  HbmAllocator allocator(topology, 0);
  Reference reference;
  std::vector<std::pair<std::size_t, std::size_t>> live;  // begin, units
  std::mt19937 random(7);
  int failures = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (random() % 2 == 0 && !live.empty()) {
      const auto victim = live.begin() + static_cast<std::ptrdiff_t>(random() % live.size());
      allocator.free(static_cast<Bytes>(victim->first * 256),
                     static_cast<Bytes>(victim->second * 256));
      reference.set(victim->first, victim->second, false);
      live.erase(victim);
    } else {
      const std::size_t units = 1 + random() % 12;
      const Bytes bytes = static_cast<Bytes>(units * 256 - random() % 256);
      if (const auto begin = reference.first_fit(units)) {
        REQUIRE(allocator.allocate(0, 0, bytes) == static_cast<Bytes>(*begin * 256));
        reference.set(*begin, units, true);
        live.emplace_back(*begin, units);
      } else {
        REQUIRE_THROWS_AS(allocator.allocate(0, 0, bytes), DeviceError);
        ++failures;
      }
    }
    REQUIRE(allocator.allocated() == reference.allocated());
  }
  CHECK(failures > 100);  // or it was never full
}

}  // namespace
}  // namespace kernbench::test::hbm_allocator_test
