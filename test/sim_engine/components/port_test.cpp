#include <catch2/catch.hpp>

#include "sim_engine/base/check.h"
#include "sim_engine/topology/location.h"
#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::port_test {

TEST_CASE("a direction alone is the first port of it", "[port]") {
  constexpr Port east = Direction::east;
  STATIC_REQUIRE(east == Port{Direction::east, 0});
  STATIC_REQUIRE(east != Port{Direction::east, 1});
  STATIC_REQUIRE(east != Port{Direction::west});
}

TEST_CASE("a port is written with its index where it is not the first", "[port]") {
  CHECK(to_string(Port(Direction::east)) == "east");
  CHECK(to_string(Port{Direction::global_north, 0}) == "global_north");
  CHECK(to_string(Port{Direction::south, 2}) == "south[2]");
}

TEST_CASE("the opposite of a port keeps its index", "[port]") {
  STATIC_REQUIRE(opposite(Port{Direction::east, 3}) == Port{Direction::west, 3});
  STATIC_REQUIRE(opposite(Port{Direction::global_south, 1}) == Port{Direction::global_north, 1});
}

TEST_CASE("a PE's table has a place for each port and finds no others", "[port][ipcq]") {
  MachineUnderTest dut(overhead_topology());
  const auto connect = [&](Port out, Port in) {
    return &dut.machine.connect({kPe0, out, kPe1, in}, {});
  };
  IpcqChannel* const third = connect({Direction::south, 2}, Direction::north);
  IpcqChannel* const first = connect(Direction::south, {Direction::north, 1});
  const PeIpcq& sender = dut.machine.pe(kPe0).ipcq();
  CHECK(sender.out(Direction::south) == first);
  CHECK(sender.out({Direction::south, 2}) == third);
  for (const int index : {-1, 1, 3, 1'000'000}) {
    CHECK(sender.out({Direction::south, index}) == nullptr);
  }
  CHECK(sender.outs() == std::vector{first, third});
  CHECK(sender.ins().empty());
  CHECK(dut.machine.pe(kPe1).ipcq().in({Direction::north, 1}) == first);
  CHECK(third->name() == "ipcq sip0.cube0.pe0 south[2] -> sip0.cube0.pe1 north");
  CHECK_THROWS_AS(connect({Direction::south, -1}, Direction::east), InternalError);

  dut.machine.disconnect_all();
  CHECK(sender.outs().empty());
}

TEST_CASE("the first unused port is where no queue ends or begins", "[port][ipcq]") {
  MachineUnderTest dut(overhead_topology());
  const auto unused = [&](const PeLocation& pe, Direction direction) {
    return dut.machine.pe(pe).ipcq().unused_port(direction);
  };
  std::vector<IpcqChannel*> channels;
  for (int i = 0; i < 4; ++i) {
    CHECK(unused(kPe0, Direction::south) == Port{Direction::south, i});
    CHECK(unused(kPe1, Direction::north) == Port{Direction::north, i});
    channels.push_back(&dut.machine.connect(
        {kPe0, {Direction::south, i}, kPe1, {Direction::north, i}}, {.slot_bytes = 0}));
  }
  // Where one channel ends at the port where another begins, both must go.
  IpcqChannel& back = dut.machine.connect(
      {kPe1, {Direction::north, 1}, kPe0, {Direction::south, 6}}, {.slot_bytes = 0});
  CHECK(unused(kPe0, Direction::south) == Port{Direction::south, 4});
  dut.machine.disconnect(*channels[2]);
  dut.machine.disconnect(*channels[1]);
  CHECK(unused(kPe0, Direction::south) == Port{Direction::south, 1});
  CHECK(unused(kPe1, Direction::north) == Port{Direction::north, 2});
  dut.machine.disconnect(back);
  CHECK(unused(kPe1, Direction::north) == Port{Direction::north, 1});
  CHECK(unused(kPe1, Direction::west) == Port{Direction::west, 0});
}

}  // namespace kernbench::sim::port_test
