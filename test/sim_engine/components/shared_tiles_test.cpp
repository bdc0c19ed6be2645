#include "sim_engine/components/shared_tiles.h"

#include <catch2/catch.hpp>

#include "sim_engine/components/queue_memory.h"
#include "test/sim_engine/components/fabric_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::sim::shared_tiles_test {

namespace {

// Two cubes of two PEs.  HBM 40 GB/s after 50 ns, SRAM 200 GB/s and 3 ns, UCIe 100 GB/s and 5 ns.
Topology two_cubes(Bytes sram = 1 << 20) {
  Topology topology = test::round_topology(SipTopology::ring_1d, 2, 1, 2, 1);
  topology.cube.sram.capacity = sram;
  return topology;
}

constexpr PeLocation kHome{0, 0, 0};
constexpr PeLocation kNext{0, 0, 1};
constexpr PeLocation kFar{0, 1, 0};

struct TilesUnderTest : FabricUnderTest {
  using FabricUnderTest::FabricUnderTest;

  // 1000 B of a region.
  SharedTiles::Tile tile(std::uint32_t region, std::uint64_t version = 1) const {
    return {{region, 1}, version, {0, 250}, kHome, 1000};
  }
  bool bring(const SharedTiles::Tile& tile, const PeLocation& to, std::uint64_t id) {
    return tiles.bring(
        tile, to, Engine::call<&FabricUnderTest::note>(static_cast<FabricUnderTest*>(this), id));
  }
  Time arrival(std::uint64_t id) {
    engine.run();
    return delivered.at(id);
  }
  Time way(const Endpoint& from, const Endpoint& to) { return fabric.path(from, to).time_of(1000); }

  QueueMemory queues{topology, {}};
  SharedTiles tiles{topology, fabric, queues};
};

constexpr Endpoint kHbm{Endpoint::Kind::hbm, kHome};
constexpr Endpoint kSram{Endpoint::Kind::sram, kHome};
constexpr Endpoint kFarSram{Endpoint::Kind::sram, kFar};

}  // namespace

TEST_CASE("who asks for a tile under way waits for it, and HBM is read once", "[shared_tiles]") {
  TilesUnderTest dut(two_cubes());
  CHECK(dut.bring(dut.tile(1), kHome, 1));
  CHECK(dut.bring(dut.tile(1), kNext, 2));
  const Time read = dut.way(kHbm, kSram);
  CHECK(dut.arrival(1) == read);
  CHECK(dut.arrival(2) == read);
  CHECK(dut.tiles.bytes_read() == 1000);
  // It is there: whoever asks has it at once.
  CHECK(dut.bring(dut.tile(1), kNext, 3));
  CHECK(dut.delivered.at(3) == dut.engine.now());
  CHECK(dut.tiles.bytes_read() == 1000);
}

TEST_CASE("another cube takes a tile from the SRAM of the cube where it lies", "[shared_tiles]") {
  TilesUnderTest dut(two_cubes());
  CHECK(dut.bring(dut.tile(1), kFar, 1));
  CHECK(dut.arrival(1) == dut.way(kHbm, kSram) + dut.way(kSram, kFarSram));
  const Time asked = dut.engine.now();
  CHECK(dut.bring(dut.tile(1), kHome, 2));  // it came through here
  CHECK(dut.arrival(2) == asked);
  CHECK(dut.tiles.bytes_read() == 1000);
}

TEST_CASE("a tile that was written since is read again", "[shared_tiles]") {
  TilesUnderTest dut(two_cubes());
  CHECK(dut.bring(dut.tile(1, 1), kHome, 1));
  dut.engine.run();
  CHECK(dut.bring(dut.tile(1, 2), kHome, 2));
  CHECK_FALSE(dut.delivered.contains(2));
  CHECK(dut.arrival(2) == 2 * dut.way(kHbm, kSram));
  CHECK(dut.tiles.bytes_read() == 2000);
}

TEST_CASE("the tile goes that nobody has asked for the longest", "[shared_tiles]") {
  TilesUnderTest dut(two_cubes(2500));
  for (const std::uint32_t region : {1, 2, 1, 3}) {  // 3 takes the place of 2
    CHECK(dut.bring(dut.tile(region), kHome, region));
    dut.engine.run();
  }
  CHECK(dut.tiles.bytes_read() == 3000);
  CHECK(dut.bring(dut.tile(1), kHome, 4));
  CHECK(dut.tiles.bytes_read() == 3000);
  CHECK(dut.bring(dut.tile(2), kHome, 5));
  CHECK(dut.tiles.bytes_read() == 4000);
}

TEST_CASE("a tile finds no room among tiles under way", "[shared_tiles]") {
  TilesUnderTest dut(two_cubes(2500));
  CHECK(dut.bring(dut.tile(1), kHome, 1));
  CHECK(dut.bring(dut.tile(2), kHome, 2));
  CHECK_FALSE(dut.bring(dut.tile(3), kHome, 3));
  // Another cube has room, and reads it past the SRAM that is full.
  CHECK(dut.bring(dut.tile(3), kFar, 4));
  dut.engine.run();
  CHECK_FALSE(dut.delivered.contains(3));
  CHECK(dut.delivered.contains(4));
  CHECK(dut.tiles.bytes_read() == 3000);
  // Now there is room.
  CHECK(dut.bring(dut.tile(3), kHome, 5));
}

}  // namespace kernbench::sim::shared_tiles_test
