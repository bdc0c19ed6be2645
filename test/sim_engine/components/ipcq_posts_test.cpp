// Posted receives: each takes the message of its number, and what becomes of those that nobody
// waits for.

#include "sim_engine/components/ipcq_posts.h"

#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "sim_engine/base/check.h"
#include "sim_engine/components/kernel_run.h"
#include "test/sim_engine/components/exchange_program.h"

namespace kernbench::sim::ipcq_posts_test {

namespace {

using State = IpcqPost::State;

// A queue from kPe0 to kPe1 whose messages of 16 B arrive when the test says so.
struct PostsUnderTest {
  explicit PostsUnderTest(const IpcqParams& params = {})
      : channel(dut.machine.connect({kPe0, Direction::east, kPe1, Direction::west}, params)) {}

  void deliver(std::uint32_t number, std::int64_t count = 4) {
    channel.deliver(number,
                    {Value(DType::f32, count), DType::f32, count, 4 * count, Time{0}, {}, 0});
  }
  KernelRun::PostedReceive post() { return receiver.run.post_receive(channel, DType::f32, 4); }
  static State state(const KernelRun::PostedReceive& receive) {
    return KernelRun::find_post(receive).state;
  }
  Bytes in_use() { return dut.machine.pe(kPe1).scratch_in_use(); }
  int credits_at_the_end() {
    dut.advance(kLongEnough);
    return channel.credits();
  }

  MachineUnderTest dut{overhead_topology()};
  IpcqChannel& channel;
  KernelUnderTest receiver{dut, kPe1};
};

}  // namespace

TEST_CASE("posts are numbered one after the other, across the end of 32 bits", "[ipcq][posts]") {
  const std::uint32_t first = GENERATE(0U, 5U, 0xfffffffeU);
  IpcqPosts posts(first);
  for (std::uint32_t i = 0; i < 100; ++i) {
    CHECK(posts.next() == first + i);
    CHECK(posts.find(first + i) == nullptr);
    posts.add().issued = Time{i};
  }
  CHECK(posts.count() == 100);
  for (std::uint32_t i = 0; i < 100; ++i) CHECK(posts.find(first + i)->issued == Time{i});
  CHECK(posts.find(first + 100) == nullptr);
  for (std::uint32_t i = 100; i-- > 50;) posts.close(first + i);  // in any order
  CHECK(posts.count() == 50);
  for (std::uint32_t i = 0; i < 50; ++i) posts.close(first + i);
  CHECK(posts.count() == 0);
  CHECK_THROWS_AS(posts.find(first), InternalError);
  CHECK_THROWS_AS(posts.close(first), InternalError);
}

TEST_CASE("a message goes to its post, whichever was there first", "[ipcq][posts]") {
  PostsUnderTest q({.depth = 2});
  const std::uint32_t first = q.channel.take_credit(Time{0});
  const std::uint32_t second = q.channel.take_credit(Time{0});
  const auto before = q.post();
  CHECK(PostsUnderTest::state(before) == State::open);
  q.deliver(first);
  CHECK(PostsUnderTest::state(before) == State::arrived);
  CHECK(q.channel.message_count() == 0);
  q.deliver(second);
  CHECK(q.channel.message_count() == 1);
  const auto after = q.post();
  CHECK(PostsUnderTest::state(after) == State::arrived);
  CHECK(q.channel.message_count() == 0);
  CHECK(q.receiver.run.outstanding() == 2);
  CHECK_FALSE(q.receiver.run.close_receive(before));
  CHECK_FALSE(q.receiver.run.close_receive(after));
  CHECK(q.credits_at_the_end() == 2);
}

TEST_CASE("a message that is not what its post expects is dropped and told", "[ipcq][posts]") {
  PostsUnderTest q({.depth = 1});
  const auto receive = q.post();
  q.deliver(q.channel.take_credit(Time{0}), 5);
  CHECK(PostsUnderTest::state(receive) == State::refused);
  const auto refused = q.receiver.run.close_receive(receive);
  REQUIRE(refused);
  CHECK(refused->bytes == 20);
  CHECK(q.receiver.run.outstanding() == 0);
  CHECK(q.credits_at_the_end() == 1);
}

TEST_CASE("a receive that has not come cannot be closed", "[ipcq][posts]") {
  PostsUnderTest q;
  const auto receive = q.post();
  CHECK_THROWS_AS(q.receiver.run.close_receive(receive), InternalError);
}

TEST_CASE("posts that are withdrawn before anything was sent are as if they had never been made",
          "[ipcq][posts]") {
  PostsUnderTest q;
  auto first = q.post();
  auto second = q.post();
  CHECK(q.receiver.run.open_receives() == 2);
  q.receiver.run.withdraw_receives();
  CHECK(q.receiver.run.open_receives() == 0);
  CHECK(q.channel.open_post_count() == 0);
  first = second = {};
  CHECK(q.in_use() == 0);
  q.deliver(q.channel.take_credit(Time{0}));
  CHECK(q.channel.message_count() == 1);
  CHECK(PostsUnderTest::state(q.post()) == State::arrived);
}

TEST_CASE("posts that are withdrawn take what was sent to them, and drop it", "[ipcq][posts]") {
  PostsUnderTest q({.depth = 3});
  std::vector<std::uint32_t> sent;
  for (int i = 0; i < 2; ++i) sent.push_back(q.channel.take_credit(Time{0}));
  q.deliver(sent[0]);
  { const std::vector<KernelRun::PostedReceive> receives{q.post(), q.post(), q.post()}; }
  q.receiver.end();  // the first message is taken in
  q.receiver.run.withdraw_receives();
  CHECK(q.in_use() == 0);
  CHECK(q.channel.open_post_count() == 0);
  const auto next = q.post();  // of the third message
  q.deliver(sent[1]);
  CHECK(PostsUnderTest::state(next) == State::open);
  CHECK(q.channel.message_count() == 0);
  q.deliver(q.channel.take_credit(Time{0}));
  CHECK(PostsUnderTest::state(next) == State::arrived);
  CHECK(q.credits_at_the_end() == 3);
}

TEST_CASE("a kernel that is gone has withdrawn its posts", "[ipcq][posts]") {
  PostsUnderTest q;
  {
    KernelUnderTest gone(q.dut, kPe1);
    gone.run.post_receive(q.channel, DType::f32, 4);
  }
  CHECK(q.in_use() == 0);
  CHECK(q.channel.open_post_count() == 0);
}

TEST_CASE("random posts and messages meet by number, and every slot is in exactly one place",
          "[ipcq][posts][random]") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const int depth = 1 + static_cast<int>(random() % 5);
    const std::uint32_t first = seed % 2 == 0 ? 0 : 0U - seed;
    PostsUnderTest q({.depth = depth, .first_number = first});
    std::uint32_t sent = 0;
    std::uint32_t delivered = 0;
    std::deque<std::pair<std::uint32_t, KernelRun::PostedReceive>> posted;
    std::uint32_t posts = 0;
    for (int step = 0; step < 500; ++step) {
      switch (random() % 5) {
        case 0:
          if (q.channel.credits() == 0) break;
          REQUIRE(q.channel.take_credit(q.dut.now()) == first + sent++);
          break;
        case 1:
          if (delivered < sent) q.deliver(first + delivered++);
          break;
        case 2:
          posted.emplace_back(posts++, q.post());
          break;
        case 3: {
          if (posted.empty()) break;
          const auto any = posted.begin() + static_cast<std::ptrdiff_t>(random() % posted.size());
          const auto& [number, receive] = *any;
          REQUIRE(PostsUnderTest::state(receive) ==
                  (number < delivered ? State::arrived : State::open));
          if (number >= delivered) break;
          q.receiver.run.close_receive(receive);
          posted.erase(any);
          break;
        }
        default:
          q.dut.advance(Time{static_cast<std::int64_t>(random() % 100'000)});
          break;
      }
      REQUIRE(q.channel.message_count() ==
              static_cast<int>(delivered > posts ? delivered - posts : 0));
      REQUIRE(q.channel.open_post_count() == static_cast<int>(posted.size()));
    }
    q.receiver.run.withdraw_receives();
    while (q.channel.message_count() > 0) {
      q.channel.pop();
      q.channel.release_slot();
    }
    for (; delivered < sent; ++delivered) q.deliver(first + delivered);
    while (q.channel.message_count() > 0) {
      q.channel.pop();
      q.channel.release_slot();
    }
    REQUIRE(q.credits_at_the_end() == depth);
  }
}

TEST_CASE("counters that wrap around change neither times nor what is exchanged",
          "[ipcq][posts][timing]") {
  const auto run_from = [](int depth, std::uint32_t first) {
    MachineUnderTest dut(overhead_topology());
    const IpcqParams params{.depth = depth, .first_number = first};
    dut.machine.connect({kPe0, Direction::east, kPe1, Direction::west}, params);
    dut.machine.connect({kPe1, Direction::west, kPe0, Direction::east}, params);
    ExchangeProgram program(dut.machine, 20);
    program.launch();
    dut.machine.engine().run();
    REQUIRE(program.is_done());
    return std::pair{program.duration(), dut.machine.engine().fingerprint()};
  };
  for (int depth = 1; depth <= 7; ++depth) {
    const auto from_zero = run_from(depth, 0);
    for (std::uint32_t k = 0; k < 25; ++k) CHECK(run_from(depth, 0U - k) == from_zero);
  }
}

TEST_CASE("a message wakes the kernel that waits for it, and no other", "[ipcq][posts]") {
  PostsUnderTest q;
  const auto awaited = q.post();
  const auto other = q.post();
  KernelRun::find_post(awaited).wakes = true;
  q.deliver(q.channel.take_credit(Time{0}));
  CHECK(q.receiver.woken.exchange(false));
  q.deliver(q.channel.take_credit(Time{0}));
  CHECK(PostsUnderTest::state(other) != State::open);
  CHECK_FALSE(q.receiver.woken);
}

}  // namespace kernbench::sim::ipcq_posts_test
