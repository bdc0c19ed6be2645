// How PE_IPCQ waits: woken at once, or looking every so often.

#include <catch2/catch.hpp>

#include "test/runtime/tl/pair_under_test.h"

namespace kernbench::test::waiting_test {
namespace {

using sim::WaitPolicy;
using tl::Direction;

constexpr Time ns(std::int64_t count) {
  return Time{count * 1000};
}

sim::IpcqParams polling(Time interval, int depth = 4) {
  return {.depth = depth, .wait = WaitPolicy::poll, .poll_interval = interval};
}

// Messages of 20 B from the first PE to the second, one after the other.
struct Stream {
  PairUnderTest pair;
  Time begin{0};

  Stream(const sim::IpcqParams& params, int count, bool copies = false) : pair(params) {
    pair.run(
        [&](tl::Context& tl, tl::Pointer p) {
          begin = pair.now();
          const tl::Tensor a = tl.load(p, {5}, DType::f32);
          for (int i = 0; i < count; ++i) {
            copies ? tl.send(Direction::east, a, tl::copy_to) : tl.send(Direction::east, a);
          }
        },
        [&](tl::Context& tl, tl::Pointer p) {
          for (int i = 0; i < count; ++i) {
            tl.store(p, tl.recv(Direction::west, {5}, DType::f32));
          }
        });
  }
};

TEST_CASE("what is there is noticed at the next look, counted from when the wait began",
          "[ipcq][wait]") {
  const sim::IpcqParams poll = polling(ns(50));
  CHECK(poll.noticed(ns(10), ns(0)) == ns(10));
  CHECK(poll.noticed(ns(10), ns(10)) == ns(10));
  CHECK(poll.noticed(ns(10), ns(10) + Time{1}) == ns(60));
  CHECK(poll.noticed(ns(10), ns(60)) == ns(60));
  CHECK(poll.noticed(ns(10), ns(60) + Time{1}) == ns(110));
  const sim::IpcqParams sleep;
  CHECK(sleep.noticed(ns(10), ns(0)) == ns(10));
  CHECK(sleep.noticed(ns(10), ns(10) + Time{1}) == ns(10) + Time{1});
}

TEST_CASE(
    "a polled message is taken in at a look after its post, a polled credit at one after the "
    "sender began to wait",
    "[ipcq][wait][timing]") {
  const Stream stream(polling(ns(50), 1), 3);
  // Loaded at 54 ns; a message takes 7 ns, a pop 2.02 ns, a credit 4.8 ns.
  //   1: sent at 54, there at 61, posted at 0: seen at 100; the credit is back at 106.82.
  //   2: waits since 0: sent at 150, there at 157, posted at 100: seen at 200; back at 206.82.
  //   3: waits since 150: sent at 250, there at 257, posted at 200: seen at 300.
  CHECK(stream.pair.send_times(stream.begin) == std::vector<Time>{ns(54), ns(150), ns(250)});
  CHECK(stream.pair.recv_times(stream.begin) == std::vector<Time>{ns(100), ns(200), ns(300)});
}

TEST_CASE("the news of a posted receive is polled too", "[ipcq][wait][copy_to][timing]") {
  const Stream stream(polling(ns(50)), 3, true);
  // News takes 4.8 ns.  1: posted at 0, seen by the sender at 50, sent when loaded at 54, there at
  // 61, which the receiver sees at 100.  2: posted at 100, known at 104.8; the sender waits since
  // 50: sent at 150, there at 157, seen at 200.  3: likewise.
  CHECK(stream.pair.send_times(stream.begin) == std::vector<Time>{ns(54), ns(150), ns(250)});
  CHECK(stream.pair.recv_times(stream.begin) == std::vector<Time>{ns(61), ns(157), ns(257)});
  CHECK(stream.pair.start_times(sim::OpKind::store, stream.begin) ==
        std::vector<Time>{ns(100), ns(200), ns(300)});
}

TEST_CASE("looking every picosecond is being woken at once", "[ipcq][wait][timing]") {
  for (const int depth : {1, 2, 4}) {
    const Stream sleeping({.depth = depth}, 10);
    const Stream looking(polling(Time{1}, depth), 10);
    CHECK(looking.pair.torch.engine().fingerprint() == sleeping.pair.torch.engine().fingerprint());
  }
}

TEST_CASE("looks cost no events", "[ipcq][wait]") {
  const auto events = [](const sim::IpcqParams& params) {
    return Stream(params, 10).pair.torch.engine().event_count();
  };
  const auto sleeping = events({.depth = 1});
  for (const Time interval : {Time{1}, ns(1), ns(1000)})
    CHECK(events(polling(interval, 1)) == sleeping);
}

TEST_CASE("a longer interval is never faster", "[ipcq][wait][timing]") {
  Time before{0};
  for (const int interval : {1, 2, 4, 8, 16, 32, 64, 128}) {
    const Stream stream(polling(ns(interval), 1), 20);
    const Time took = stream.pair.now() - stream.begin;
    CHECK(took >= before);
    before = took;
  }
}

}  // namespace
}  // namespace kernbench::test::waiting_test
