// One queue by itself: credits, slots, order, errors, and the times of its two paths.

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "test/sim_engine/components/machine_under_test.h"
#include "test/support/error_text.h"

namespace kernbench::sim::ipcq_channel_test {

namespace {

struct ChannelUnderTest {
  explicit ChannelUnderTest(const IpcqParams& params, const PeLocation& to = kFarPe0)
      : channel(dut.machine.connect({kPe0, Direction::global_east, to, Direction::global_west},
                                    params)) {}

  // A message that is there at once, and tells its number.
  void push(std::int64_t number) {
    channel.deliver(channel.take_credit(dut.now()), message(number));
  }
  static IpcqMessage message(std::int64_t number) {
    return {Value(DType::f32, 4), DType::f32, number, 16, Time{0}, {}, 0};
  }
  bool has_credit() { return channel.next_credit() && *channel.next_credit() <= dut.now(); }
  void woken() { ++wake_count; }
  Event wake() { return Engine::call<&ChannelUnderTest::woken>(this); }

  MachineUnderTest dut{overhead_topology()};
  IpcqChannel& channel;
  int wake_count = 0;
};

}  // namespace

TEST_CASE("a queue gives as many credits as it has slots", "[ipcq]") {
  const int depth = GENERATE(1, 2, 4, 7);
  ChannelUnderTest q({.depth = depth});
  for (int i = 0; i < depth; ++i) {
    CHECK(q.has_credit());
    q.push(i);
  }
  CHECK_FALSE(q.has_credit());
  CHECK(q.channel.message_count() == depth);
}

TEST_CASE("a push without credit and a pop of nothing name the queue", "[ipcq][errors]") {
  ChannelUnderTest q({.depth = 1});
  CHECK_THAT(
      test::error_of<DeviceError>([&] { q.channel.pop(); }),
      test::Says("KB-Q002", "sip0.cube0.pe0", "global_east", "sip1.cube0.pe0", "global_west"));
  q.push(1);
  CHECK_THAT(test::error_of<DeviceError>([&] { q.channel.take_credit(q.dut.now()); }),
             test::Says("KB-Q001", "sip0.cube0.pe0", "0", "global_east", "sip1.cube0.pe0", "1",
                        "global_west"));
  CHECK(q.channel.message_count() == 1);  // neither changed anything
  CHECK(q.channel.credits() == 0);
}

TEST_CASE("a credit takes the latency of the way back and 16 bytes at its slowest link",
          "[ipcq][timing]") {
  ChannelUnderTest q({.depth = 1});
  q.push(1);
  q.channel.wake_on_credit(q.wake());
  q.channel.pop();
  CHECK(q.wake_count == 0);
  CHECK_FALSE(q.channel.next_credit());
  q.channel.release_slot();
  CHECK(q.wake_count == 1);
  // NoC 2 + 2 ns, UCIe 5 + 5 ns, SIP link 100 ns at 10 GB/s.
  const Time back = ns(2 + 5 + 100 + 5 + 2) + Time{1'600};
  CHECK(q.channel.next_credit() == back);
  q.dut.advance(back - Time{1});
  CHECK(q.channel.credits() == 0);
  CHECK_THROWS_AS(q.channel.take_credit(q.dut.now()), DeviceError);
  q.dut.advance(Time{1});
  CHECK(q.channel.credits() == 1);
  q.channel.take_credit(q.dut.now());
}

TEST_CASE("credits occupy no link, and none waits for another", "[ipcq][timing]") {
  ChannelUnderTest q({.depth = 4});
  for (int i = 0; i < 4; ++i) q.push(i);
  const Path back = q.dut.path({Endpoint::Kind::pe_cpu, kFarPe0}, {Endpoint::Kind::pe_cpu, kPe0});
  q.dut.machine.fabric().send(back, 1'000'000, q.wake());  // the way back is full for 100 us
  for (int i = 0; i < 4; ++i) {
    q.channel.pop();
    q.channel.release_slot();
  }
  q.dut.advance(back.time_of(16) - Time{1});
  CHECK(q.channel.credits() == 0);
  q.dut.advance(Time{1});
  CHECK(q.channel.credits() == 4);
}

TEST_CASE("messages come out in the order in which they went in", "[ipcq]") {
  ChannelUnderTest q({.depth = 3});
  for (int round = 0; round < 5; ++round) {  // the ring wraps
    q.push(2 * round);
    q.push(2 * round + 1);
    CHECK(q.channel.message(0).element_count == 2 * round);
    CHECK(q.channel.pop().element_count == 2 * round);
    CHECK(q.channel.pop().element_count == 2 * round + 1);
    q.channel.release_slot();
    q.channel.release_slot();
    q.dut.advance(kLongEnough);
  }
}

TEST_CASE("a message that is too large, or that no credit was taken for, is our own fault",
          "[ipcq]") {
  ChannelUnderTest q({.depth = 2, .slot_bytes = 16});
  CHECK_THROWS_AS(q.channel.deliver(0, ChannelUnderTest::message(1)), InternalError);
  ChannelUnderTest small({.depth = 2, .slot_bytes = 15});
  const std::uint32_t number = small.channel.take_credit(Time{0});
  CHECK_THROWS_AS(small.channel.deliver(number, ChannelUnderTest::message(1)), InternalError);
  ChannelUnderTest idle({.depth = 2});
  CHECK_THROWS_AS(idle.channel.release_slot(), InternalError);
  CHECK_THROWS_AS(ChannelUnderTest({.depth = 0}), InternalError);
}

TEST_CASE("the buffer's memory decides the paths into it and out of it", "[ipcq][timing]") {
  const auto time_of = [](BufferKind kind, const PeLocation& to) {
    ChannelUnderTest q({.buffer_kind = kind}, to);
    return std::pair{q.channel.data_path().time_of(1000), q.channel.pop_path().time_of(1000)};
  };
  // TCM 1 ns at 1000 GB/s, NoC 2 ns at 20 GB/s, SRAM 3 ns, HBM 50 ns, UCIe 5 ns, SIP link 100 ns
  // at 10 GB/s.
  CHECK(time_of(BufferKind::tcm, kPe1) == std::pair{ns(1 + 2 + 2 + 1 + 50), ns(1 + 1 + 1)});
  CHECK(time_of(BufferKind::sram, kPe1) == std::pair{ns(1 + 2 + 3 + 50), ns(3 + 2 + 1 + 50)});
  CHECK(time_of(BufferKind::hbm, kPe1) == std::pair{ns(1 + 2 + 50 + 50), ns(50 + 2 + 1 + 50)});
  CHECK(time_of(BufferKind::tcm, kFarPe0) ==
        std::pair{ns(1 + 2 + 5 + 100 + 5 + 2 + 1 + 100), ns(1 + 1 + 1)});
  CHECK(time_of(BufferKind::hbm, kFarPe0) ==
        std::pair{ns(1 + 2 + 5 + 100 + 5 + 50 + 100), ns(50 + 2 + 1 + 50)});
}

TEST_CASE("reset puts a queue back to where it began", "[ipcq]") {
  ChannelUnderTest q({.depth = 3});
  q.push(1);
  q.push(2);
  q.channel.take_credit(q.dut.now());
  q.channel.pop();
  q.channel.release_slot();
  q.channel.wake_on_credit(q.wake());
  q.dut.machine.engine().clear();
  q.channel.reset();
  CHECK(q.channel.credits() == 3);
  CHECK(q.channel.message_count() == 0);
  q.push(7);
  CHECK(q.channel.pop().element_count == 7);
  q.channel.release_slot();
  q.dut.advance(kLongEnough);
  CHECK(q.channel.credits() == 3);
  CHECK(q.wake_count == 0);  // those who waited are forgotten
}

TEST_CASE("random operations keep every slot in exactly one place", "[ipcq][random]") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const int depth = 1 + static_cast<int>(random() % 8);
    const std::uint32_t first = seed % 2 == 0 ? 0 : 0U - seed;  // the counters wrap around
    std::uint32_t sent = first;
    ChannelUnderTest q({.depth = depth, .first_number = first});
    Engine& engine = q.dut.machine.engine();
    const Time credit_time =
        q.dut.path({Endpoint::Kind::pe_cpu, kFarPe0}, {Endpoint::Kind::pe_cpu, kPe0}).time_of(16);
    std::deque<std::int64_t> arrived;
    std::deque<Time> credits;  // when each that is flying is back
    int on_the_way = 0;
    int being_emptied = 0;
    std::int64_t next = 0;
    for (int step = 0; step < 500; ++step) {
      switch (random() % 5) {
        case 0:
          if (q.has_credit()) {
            CHECK(q.channel.take_credit(q.dut.now()) == sent);
            ++sent;
            ++on_the_way;
          } else {
            CHECK_THROWS_AS(q.channel.take_credit(q.dut.now()), DeviceError);
          }
          break;
        case 1:
          if (on_the_way == 0) break;
          --on_the_way;
          arrived.push_back(next);
          q.channel.deliver(first + static_cast<std::uint32_t>(next),
                            ChannelUnderTest::message(next));
          ++next;
          break;
        case 2:
          if (arrived.empty()) {
            CHECK_THROWS_AS(q.channel.pop(), DeviceError);
            break;
          }
          REQUIRE(q.channel.pop().element_count == arrived.front());
          arrived.pop_front();
          ++being_emptied;
          break;
        case 3:
          if (being_emptied == 0) break;
          --being_emptied;
          q.channel.release_slot();
          credits.push_back(engine.now() + credit_time);
          break;
        default:
          const Time wait{static_cast<std::int64_t>(random() % 100'000)};
          q.dut.advance(wait);
          break;
      }
      std::erase_if(credits, [&](Time back) { return back < engine.now(); });
      // A credit that is due at this very instant may be on either side of it.
      const auto due = static_cast<int>(std::ranges::count(credits, engine.now()));
      const int certain = depth - on_the_way - static_cast<int>(arrived.size()) - being_emptied -
                          static_cast<int>(credits.size());
      REQUIRE(q.channel.credits() >= certain);
      REQUIRE(q.channel.credits() <= certain + due);
      REQUIRE(q.channel.message_count() == static_cast<int>(arrived.size()));
    }
    q.dut.advance(kLongEnough);
    REQUIRE(q.channel.credits() ==
            depth - on_the_way - static_cast<int>(arrived.size()) - being_emptied);
  }
}

TEST_CASE("who waits for the last credit waits for what has emptied its slot", "[ipcq][causes]") {
  const int depth = GENERATE(1, 2, 3);
  MachineUnderTest dut(overhead_topology(), {.profile = true});
  IpcqChannel& channel = dut.machine.connect(
      {kPe0, Direction::global_east, kFarPe0, Direction::global_west}, {.depth = depth});
  for (int i = 0; i < depth; ++i) {
    channel.deliver(channel.take_credit(dut.now()), ChannelUnderTest::message(i));
  }
  channel.pop();
  dut.advance(ns(1000));
  const Time emptied = dut.now();
  CauseLog& causes = *dut.machine.engine().causes();
  causes.set_current(causes.add(CauseLog::Id::begin, emptied, Cause::dma, 7));
  channel.release_slot();
  causes.set_current(CauseLog::Id::begin);
  const Time there = channel.next_credit().value();
  const auto path = causes.critical_path(channel.cause_of_credit(there), Time{0}, there);
  REQUIRE(path.size() == 2);
  CHECK(path[0].why == Cause::dma);
  CHECK(path[0].place == 7);
  CHECK(path[1].why == Cause::credit);
  CHECK(path[1].start == emptied);
  CHECK(path[1].end == there);
}

}  // namespace kernbench::sim::ipcq_channel_test
