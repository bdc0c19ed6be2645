// Streams of messages between two kernels: how fast credits let them be.

#include <algorithm>
#include <catch2/catch.hpp>

#include "sim_engine/components/kernel_run.h"
#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::ipcq_stream_test {

namespace {

// One link of 10 GB/s and 100 ns is all that costs time.
Topology one_link() {
  Topology topology = test::free_topology();
  topology.system.sip_link = {Bandwidth{10'000'000'000}, ns(100)};
  return topology;
}

// Sends `count` messages of a tile as credits allow, and receives them as they come.
struct StreamUnderTest {
  StreamUnderTest(const Topology& topology, const IpcqParams& params)
      : dut(topology),
        channel(dut.machine.connect({kPe0, Direction::global_east, kFarPe0, Direction::global_west},
                                    params)) {}

  void send_more() {
    for (; to_send > 0 && channel.next_credit(); --to_send) {
      sender.wait_until(*channel.next_credit());
      sender.send(channel, *tile);
    }
    if (to_send > 0) channel.wake_on_credit(Engine::call<&StreamUnderTest::send_more>(this));
  }
  void receive_more() {
    while (to_receive > 0) {
      if (!posted) posted = receiver.post_receive(channel, DType::f32, (*tile)->element_count);
      IpcqPost& post = KernelRun::find_post(*posted);
      post.wakes = post.state == IpcqPost::State::open;
      if (post.wakes) return;
      receiver.close_receive(*posted);
      posted.reset();
      arrivals.push_back(dut.now() - start);
      --to_receive;
    }
  }

  // When the last of `count` messages of `bytes` is in the receiver's scratch.
  Time time_of(int count, Bytes bytes) {
    const Tile loaded = sender.load(dut.buffer(kPe0, bytes / 4), 0, bytes / 4);
    dut.machine.engine().run();
    tile = &loaded;
    start = dut.now();
    to_send = to_receive = count;
    receive_more();
    send_more();
    dut.machine.engine().run();
    dut.advance(kLongEnough);
    CHECK(channel.credits() == channel.params().depth);
    CHECK(arrivals.size() == static_cast<std::size_t>(count));
    return dut.machine.op_log()[dut.machine.op_log().size() - 1].end - start;
  }

  MachineUnderTest dut;
  IpcqChannel& channel;
  KernelRun sender{dut.machine.pe(kPe0), Event{nothing, nullptr, 0}};
  KernelRun receiver{dut.machine.pe(kFarPe0), Engine::call<&StreamUnderTest::receive_more>(this)};
  const Tile* tile = nullptr;
  std::optional<KernelRun::PostedReceive> posted;
  Time start{0};
  int to_send = 0;
  int to_receive = 0;
  std::vector<Time> arrivals;

 private:
  static void nothing(void*, std::uint64_t) {}
};

// `depth` messages leave back to back; the next ones when the credits of these are back.
Time stream_time(int count, int depth, Time busy, Time one_way, Time credit) {
  std::vector<Time> arrived;
  for (int i = 0; i < count; ++i) {
    Time leaves{0};
    if (i >= depth) leaves = arrived[static_cast<std::size_t>(i - depth)] + credit;
    Time arrives = leaves + one_way;
    if (i > 0) arrives = std::max(arrives, arrived.back() + busy);
    arrived.push_back(arrives);
  }
  return arrived.back();
}

}  // namespace

TEST_CASE("one message takes the link's latency and its bytes", "[ipcq][timing]") {
  StreamUnderTest stream(one_link(), {.depth = 1});
  CHECK(stream.time_of(1, 1000) == ns(100) + ns(100));
}

TEST_CASE("with one slot every message waits for the credit of the one before", "[ipcq][timing]") {
  StreamUnderTest stream(one_link(), {.depth = 1});
  // 200 ns there, 101.6 ns for the credit.
  CHECK(stream.time_of(10, 1000) == 9 * (ns(200) + Time{101'600}) + ns(200));
}

TEST_CASE("a window below the round trip is sent once per round trip", "[ipcq][timing]") {
  StreamUnderTest stream(one_link(), {.depth = 2});
  // Two messages of 100 ns fit into the round trip of 301.6 ns; the fourth pair ends the eighth.
  CHECK(stream.time_of(8, 1000) == 3 * Time{301'600} + ns(200) + ns(100));
  CHECK(stream.arrivals[2] - stream.arrivals[0] == Time{301'600});
}

TEST_CASE("a window above the round trip fills the link", "[ipcq][timing]") {
  const int depth = GENERATE(4, 5, 16);
  StreamUnderTest stream(one_link(), {.depth = depth});
  CHECK(stream.time_of(100, 1000) == ns(100) + 100 * ns(100));
}

TEST_CASE("k messages take what a recurrence over credits says, for every depth and size",
          "[ipcq][timing]") {
  const int depth = GENERATE(1, 2, 3, 4, 8);
  const Bytes bytes = GENERATE(0, 4, 400, 1000, 4000, 16000);
  StreamUnderTest stream(one_link(), {.depth = depth});
  const Time busy = transfer_time(bytes, Bandwidth{10'000'000'000});
  const Time expected = stream_time(25, depth, busy, ns(100) + busy, Time{101'600});
  CHECK(stream.time_of(25, bytes) == expected);
  // Never faster than either bound allows.
  const Time round_trip = ns(100) + busy + Time{101'600};
  CHECK(expected >= 25 * busy);
  CHECK(expected >= (24 / depth) * round_trip);
}

TEST_CASE("each overhead of a message adds its term", "[ipcq][timing]") {
  const BufferKind kind = GENERATE(BufferKind::tcm, BufferKind::sram, BufferKind::hbm);
  StreamUnderTest stream(overhead_topology(), {.buffer_kind = kind, .depth = 1});
  const Path& in = stream.channel.data_path();
  const Path& out = stream.channel.pop_path();
  // PE_CPU 10, PE_SCHEDULER 5, DMA setup 20, PE_IPCQ 4: at the sender, and but for the PE_CPU,
  // which has posted the receive before, at the receiver.
  const Time there = ns(39) + in.time_of(1000);
  const Time taken = ns(29) + out.time_of(1000);
  const Time credit =
      stream.dut.path({Endpoint::Kind::pe_cpu, kFarPe0}, {Endpoint::Kind::pe_cpu, kPe0})
          .time_of(16);
  CHECK(stream.time_of(3, 1000) == 3 * (there + taken) + 2 * credit);
}

TEST_CASE("every link of the way carries every byte once", "[ipcq][fabric]") {
  StreamUnderTest stream(overhead_topology(), {.depth = 3});
  const Fabric& fabric = stream.dut.machine.fabric();
  stream.time_of(10, 1000);
  for (const LinkId link : stream.channel.data_path().links) {
    // The tile was loaded over tcm.write of its own PE; the receiver's is in both paths.
    const bool twice = fabric.routing().name(link) == "sip1.cube0.pe0.tcm.write";
    CHECK(fabric.carried(link) == (twice ? 20'000 : 10'000));
  }
}

TEST_CASE("streams of opposite directions do not slow each other down", "[ipcq][timing]") {
  StreamUnderTest stream(one_link(), {.depth = 8});
  IpcqChannel& back = stream.dut.machine.connect(
      {kFarPe0, Direction::global_east, kPe0, Direction::global_west}, {.depth = 8});
  const Tile far = stream.receiver.load(stream.dut.buffer(kFarPe0, 250), 0, 250);  // starts at once
  for (int i = 0; i < 8; ++i) stream.receiver.send(back, far);
  CHECK(stream.time_of(50, 1000) == ns(100) + 50 * ns(100));
  CHECK(back.message_count() == 8);
}

}  // namespace kernbench::sim::ipcq_stream_test
